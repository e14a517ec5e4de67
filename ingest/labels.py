"""Gives the episodes of a dataset what files of labels beside them say: outcome, texts, split and subtasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from ares.episode import Episode, Json, Record
from ares.errors import AresError
from ingest.base import GuardedItems, Item, Source, SourceFile, known_error
from ingest.files import find_label_files
from ingest.label_files import EpisodeNames, LabelRow, read_label_rows, read_whole_number
from ingest.source_words import distinct_texts, is_column_of, normalise_name, parse_outcome

# Field of the metadata: what files of labels say of an episode in fields of unknown meaning.
LABELS = "labels"
# Field of the metadata that holds the parts of an episode.
SUBTASKS = "subtasks"
_SUBTASK_FIELDS = frozenset({"subtask", "subtasks", "segments", "sub_tasks", "steps_text"})
_CONTRADICTION = "a file of labels contradicts the outcome of the source, which is kept"
_MOST_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeLabels:
    """What files of labels say of one episode.

    Attributes:
        success: Its outcome, or None.
        success_source: File and field that say so.
        texts: Its instructions.
        split: The part of the dataset that it is in, or "".
        subtasks: Its parts, as the file has them.
        others: Fields of unknown meaning.
        disputed: "success" and "split", where files differ in them: neither is read, whatever a further file says.
    """

    success: bool | None = None
    success_source: str = ""
    texts: tuple[str, ...] = ()
    split: str = ""
    subtasks: tuple[Json, ...] = ()
    others: Mapping[str, Json] = field(default_factory=dict)
    disputed: frozenset[str] = frozenset()


@dataclass(slots=True, kw_only=True)
class FileTally:
    """What is wrong with a file of labels.

    Attributes:
        name: Name of the file.
        unknown: Names that no episode has.
        repeated: Episodes that it names twice, with different values.
        no_outcome: Values of each field of outcomes that are none.
    """

    name: str
    unknown: list[str] = field(default_factory=list)
    repeated: dict[str, None] = field(default_factory=dict)
    no_outcome: dict[str, list[str]] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """One line for each kind, with a count and examples."""
        if self.unknown:
            yield f"{self.name} names {len(self.unknown)} episodes that are not here ({_some_of(self.unknown)})"
        if self.repeated:
            count = f"{self.name} names {len(self.repeated)} episodes twice"
            yield f"{count} with different values, which are not read ({_some_of(self.repeated)})"
        for column, values in self.no_outcome.items():
            shown = _some_of(dict.fromkeys(values))
            yield f"{len(values)} values of {column} in {self.name} are no outcome ({shown}): kept as metadata.{LABELS}"


def _some_of(values: Iterable[str]) -> str:
    texts = [value[:60] for value in values]
    return ", ".join(texts[:_MOST_SHOWN]) + (", ..." if len(texts) > _MOST_SHOWN else "")


def open_with_labels(
    open_sources: Callable[[], list[Source]], sources: list[Source] | None = None
) -> list[Source]:
    """The sources of a dataset, whose episodes have what files of labels say of them.

    Args:
        open_sources: Opens them; called again to list the episodes, where there may be such files.
        sources: What it has returned, where it was called before.

    Raises what opening raises.
    """
    sources = open_sources() if sources is None else sources
    for number, source in enumerate(sources):
        paths = find_label_files(source)
        if paths:
            listed = GuardedItems(open_sources()[number])
            sources[number] = add_labels(source, [item.key for item in listed if item.key], paths)
    return sources


def add_labels(source: Source, keys: Sequence[str], paths: Sequence[Path]) -> Source:
    """The source with what files say of its episodes.

    Args:
        source: The source.
        keys: Keys of its episodes.
        paths: Files that may hold labels.
    """
    names, by_key = EpisodeNames(keys), dict[str, EpisodeLabels]()
    warnings, used = list[str](), list[SourceFile]()
    for path in paths if keys else ():
        try:
            rows = read_label_rows(path, names)
        except AresError as error:
            if path.suffix.lower() == ".json":
                warnings.append(f"{path.name} beside the episodes cannot be read: {error.reason}")
            continue
        if not rows:
            continue
        used.append(SourceFile(path=str(path), use="metadata"))
        if reason := _reason_shifted(rows, names):
            warnings.append(f"{path.name} {reason}")
            continue
        tally = FileTally(name=path.relative_to(source.folder).as_posix())
        by_key = _merge_labels(by_key, _labels_of_file(rows, names, tally), tally)
        warnings += tally.lines()
    if not used:
        return source
    return replace(
        source,
        files=partial(_files_with, source.files, used),
        items=_label_items(source.items, by_key),
        warnings=(*source.warnings, *warnings),
    )


def _files_with(
    list_files: Callable[[], Iterable[SourceFile]], more: Sequence[SourceFile]
) -> Iterator[SourceFile]:
    yield from list_files()
    yield from more


def _reason_shifted(rows: Sequence[LabelRow], names: EpisodeNames) -> str:
    """Why numbers do not say which episode is meant: they are those of the episodes, but for a constant; or ""."""
    if any(names.find_text(row.name) for row in rows):
        return ""
    numbers = sorted({n for row in rows if (n := read_whole_number(row.name)) is not None})
    known = sorted(names.by_number)
    if len(numbers) != len(known) or numbers == known:
        return ""
    if len({number - other for number, other in zip(numbers, known, strict=True)}) > 1:
        return ""
    return (
        f"counts episodes from {numbers[0]} to {numbers[-1]}, their names from {known[0]} to {known[-1]}: it is not"
        " read; name the episodes as their files are named"
    )


def _labels_of_file(
    rows: Sequence[LabelRow], names: EpisodeNames, tally: FileTally
) -> dict[str, EpisodeLabels]:
    """What the rows say, by key of the episode."""
    by_key: dict[str, list[Mapping[str, Json]]] = {}
    for row in rows:
        key = names.find(row.name)
        if key:
            by_key.setdefault(key, []).append(row.fields)
        else:
            tally.unknown.append(str(row.name))
    return {key: _labels_of_episode(key, parts, tally) for key, parts in by_key.items()}


def _labels_of_episode(key: str, parts: Sequence[Mapping[str, Json]], tally: FileTally) -> EpisodeLabels:
    """What the rows of one episode say; rows with a span are its subtasks, and values that differ are not read."""
    if len(parts) > 1 and all(_has_span(part) for part in parts):
        return EpisodeLabels(subtasks=tuple(dict(part) for part in parts))
    fields: dict[str, Json] = {}
    for name in dict.fromkeys(name for part in parts for name in part):
        values = [part[name] for part in parts if part.get(name) not in (None, "")]
        if any(value != values[0] for value in values[1:]):
            tally.repeated[key] = None
        elif values:
            fields[name] = values[0]
    return _read_fields(fields, tally)


def _has_span(part: Mapping[str, Json]) -> bool:
    names = {normalise_name(name).removesuffix("_frame").removesuffix("_step") for name in part}
    return all(any(is_column_of(end, name) for name in names) for end in ("start", "stop"))


def _read_fields(fields: Mapping[str, Json], tally: FileTally) -> EpisodeLabels:
    labels, texts, others = EpisodeLabels(), list[str](), dict[str, Json]()
    for name, value in fields.items():
        is_list = isinstance(value, list)
        if is_column_of("success", name) and not is_list and not isinstance(value, Mapping):
            success = parse_outcome(value) if labels.success is None else labels.success
            if success is None:
                tally.no_outcome.setdefault(name, []).append(str(value))
                others[name] = value
            elif labels.success is None:
                labels = replace(labels, success=success, success_source=f"{tally.name}: {name}")
        elif is_column_of("instruction", name) and _are_texts(value):
            texts += [str(text) for text in value] if isinstance(value, list) else [str(value)]
        elif is_column_of("split", name) and isinstance(value, str):
            labels = replace(labels, split=value.strip())
        elif normalise_name(name) in _SUBTASK_FIELDS and isinstance(value, list):
            labels = replace(labels, subtasks=tuple(value))
        else:
            others[name] = value
    return replace(labels, texts=distinct_texts(texts), others=others)


def _are_texts(value: Json) -> bool:
    return all(isinstance(part, str) for part in (value if isinstance(value, list) else [value]))


def _merge_labels(
    before: Mapping[str, EpisodeLabels], added: Mapping[str, EpisodeLabels], tally: FileTally
) -> dict[str, EpisodeLabels]:
    """What several files say; outcomes and splits in which they differ are not read."""
    merged = dict(before)
    for key, labels in added.items():
        other = before.get(key)
        if other is None:
            merged[key] = labels
            continue
        outcomes = {part.success for part in (other, labels)} - {None}
        splits = {part.split for part in (other, labels)} - {""}
        disputed = {name for name, count in (("success", len(outcomes)), ("split", len(splits))) if count > 1}
        if disputed:
            tally.repeated[key] = None
        disputed |= other.disputed
        merged[key] = EpisodeLabels(
            success=next(iter(outcomes), None) if "success" not in disputed else None,
            success_source=other.success_source or labels.success_source,
            texts=distinct_texts([*other.texts, *labels.texts]),
            split=next(iter(splits), "") if "split" not in disputed else "",
            subtasks=other.subtasks or labels.subtasks,
            others={**labels.others, **other.others},
            disputed=frozenset(disputed),
        )
    return merged


def _label_items(items: Iterable[Item], by_key: Mapping[str, EpisodeLabels]) -> Iterator[Item]:
    for item in items:
        labels = by_key.get(item.key)
        if labels is None or known_error(item) is not None:
            yield item
        else:
            yield replace(item, load=partial(load_with_labels, item.load, labels))


def load_with_labels(load: Callable[[], Record], labels: EpisodeLabels) -> Record:
    """Read a record and give it its labels. Raises SourceError as reading does."""
    record = load()
    episode = _add_episode_labels(record.episode, labels)
    is_contradicted = labels.success is not None and episode.success is not labels.success
    warnings = (*record.warnings, _CONTRADICTION) if is_contradicted else record.warnings
    return replace(record, episode=episode, warnings=warnings)


def _add_episode_labels(episode: Episode, labels: EpisodeLabels) -> Episode:
    """The episode; what its own record says stays."""
    instructions = distinct_texts([*episode.instructions, *labels.texts])
    metadata = dict(episode.metadata)
    if labels.others:
        metadata.setdefault(LABELS, dict(labels.others))
    if labels.subtasks:
        metadata.setdefault(SUBTASKS, list(labels.subtasks))
    is_known = episode.success is not None or labels.success is None
    return replace(
        episode,
        success=episode.success if is_known else labels.success,
        success_source=episode.success_source if is_known else labels.success_source,
        instruction=instructions[0] if instructions else "",
        instructions=instructions,
        split=episode.split or labels.split,
        metadata=metadata,
    )
