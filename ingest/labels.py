"""Gives the episodes of a dataset what files of labels beside them say: outcome, texts, split and segments."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

from ares.console import count_are, count_of
from ares.episode import Episode, Json, Record, SourceSegment
from ares.errors import AresError
from ares.input import (
    WRONG_LINE,
    EpisodeNames,
    NamedSpan,
    SpanFile,
    locate_spans,
    match_spans_to_episodes,
    parse_spans,
    read_span_file,
)
from ares_ingest.base import Item, Source, SourceFile, stamp_labels
from ares_ingest.files import MOST_LABEL_FILES, find_label_files
from ares_ingest.guarded_loading import GuardedItems
from ares_ingest.label_files import INSTRUCTION, SPLIT, SUCCESS, LabelRow, read_label_file
from ares_ingest.outcomes import LABELS
from ares_ingest.source_words import describe_table, distinct_texts, is_outcome_word, parse_outcome

# Field of the metadata that holds the parts of an episode.
SUBTASKS = "subtasks"
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
        spans: Spans of it.
        others: Fields of unknown meaning.
        disputed: "success" and "split", where files differ in them: neither is read, whatever a further file says.
    """

    success: bool | None = None
    success_source: str = ""
    texts: tuple[str, ...] = ()
    split: str = ""
    spans: tuple[NamedSpan, ...] = ()
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
            unknown = count_of(len(self.unknown), "episode")
            are = "is" if len(self.unknown) == 1 else "are"
            yield f"{self.name} names {unknown} that {are} not here ({_some_of(self.unknown)})"
        if self.repeated:
            count = f"{self.name} names {count_of(len(self.repeated), 'episode')} twice"
            yield f"{count} with different values, which are not read ({_some_of(self.repeated)})"
        for column, values in self.no_outcome.items():
            shown = _some_of(dict.fromkeys(values))
            values_are = count_are(len(values), "value", f"{column} in {self.name}")
            yield f"{values_are} no outcome ({shown}): kept as metadata"


def _some_of(values: Iterable[str]) -> str:
    texts = [value[:60] for value in values]
    return ", ".join(texts[:_MOST_SHOWN]) + (", ..." if len(texts) > _MOST_SHOWN else "")


def open_with_labels(
    open_sources: Callable[[], list[Source]],
    sources: list[Source] | None = None,
    spans: str = "",
) -> list[Source]:
    """The sources of a dataset, whose episodes have what files of labels say of them.

    Args:
        open_sources: Opens them; called again to list the episodes, where there may be such files.
        sources: What it has returned, where it was called before.
        spans: Path of a file of spans that the spec names, or "".

    Raises what opening raises, and SourceError for a file of spans that the spec names and that cannot be read.
    """
    sources = open_sources() if sources is None else sources
    for number, source in enumerate(sources):
        try:
            paths, left = find_label_files(source)
        except AresError:  # who lists the files of the dataset tells the fault
            sources[number] = hide_labels(source, "some")
            continue
        if paths or spans or left:
            listed = GuardedItems(open_sources()[number]) if paths or spans else ()
            labels = _LabelCollector(source, [item.key for item in listed if item.key])
            labels.leave_files(left)
            sources[number] = _add_labels(source, labels, paths, spans)
    return sources


def hide_labels(source: Source, seen: Literal["some", "none"] = "none") -> Source:
    """The source, of whose episodes not all files are seen that may say something of them, see `Item.seen_labels`."""
    return replace(source, items=(replace(item, seen_labels=seen) for item in source.items))


def keep_label_stamp(record: Record, stamp: str) -> Record:
    """The record with the stamp of what files beside it say."""
    return replace(record, episode=replace(record.episode, label_stamp=stamp))


def _add_labels(source: Source, labels: _LabelCollector, paths: Sequence[Path], spans: str) -> Source:
    """The source with what files, and a file of spans that the spec names, say of its episodes."""
    named = Path(spans) if spans else None
    if named is not None:
        labels.add_spans(named, read_span_file(named))
    for path in paths if labels.has_keys else ():
        if named is None or path.resolve() != named.resolve():
            labels.add_file(path)
    if not labels.used and not labels.warnings:
        return source
    return replace(
        source,
        files=partial(_files_with, source.files, labels.used),
        items=_label_items(source.items, labels),
        describe_tables=lambda: (*source.describe_tables(), *labels.described),
        warnings=(*source.warnings, *labels.warnings),
    )


class _LabelCollector:
    """What files say of the episodes of a source, and which files do.

    Args:
        source: The source.
        keys: Keys of its episodes.

    Attributes:
        by_key: What they say, by key of the episode.
        stamps: Hashes of what each file says, by key of the episode and path of the file.
        warnings: What is wrong with them.
        used: Those that name episodes.
        described: What the rows of each table hold, in a line.
        is_whole: Whether each that may name episodes could be read.
        has_keys: Whether there are episodes that can be named.
    """

    def __init__(self, source: Source, keys: Sequence[str]) -> None:
        self._folder = source.folder
        self._names, self.has_keys = EpisodeNames(keys), bool(keys)
        self.by_key: dict[str, EpisodeLabels] = {}
        self.stamps: dict[str, dict[str, str]] = {}
        self.warnings, self.used = list[str](), list[SourceFile]()
        self.is_whole, self.described = True, list[str]()

    def leave_files(self, paths: Sequence[Path]) -> None:
        """Warn of files that are too many to be read."""
        for suffix, count in Counter(path.suffix.lower() for path in paths).items():
            self.is_whole = False
            kind = f"more than {MOST_LABEL_FILES} of the kind in a folder"
            self.warnings.append(f"{count_are(count, f'{suffix} file')} not searched for labels: {kind}")

    def add_file(self, path: Path) -> None:
        """Add what a file beside the episodes says; nothing for one about anything else."""
        try:
            file = read_label_file(path, self._names)
        except AresError as error:
            self.warnings.append(f"{path.name} beside the episodes cannot be read: {error.reason}")
            self.is_whole = False
            return
        self.warnings += file.warnings
        self.is_whole &= file.is_whole
        if file.spans is not None:
            self.add_spans(path, file.spans)
        elif file.rows:
            self._add_rows(path, file.rows)

    def add_spans(self, path: Path, file: SpanFile) -> None:
        """Add the spans of a file; those that name no episode here are counted."""
        matched = match_spans_to_episodes(file, self._names.find)
        self.is_whole &= WRONG_LINE not in file.tally.counts
        self.used.append(SourceFile(path=str(path), use="metadata"))
        names = {span.names for span in file.spans}
        if reason := self._names.reason_shifted(name for span_names in names for name in span_names):
            self.warnings.append(f"{path.name} {reason}")
            self.is_whole = False
            return
        self.warnings += file.tally.lines()
        added = {key: EpisodeLabels(spans=tuple(spans)) for key, spans in matched.items()}
        self._add_labels(path, added, FileTally(name=path.name))

    def _add_rows(self, path: Path, rows: Sequence[LabelRow]) -> None:
        self.used.append(SourceFile(path=str(path), use="metadata"))
        if reason := self._names.reason_shifted(row.name for row in rows):
            self.warnings.append(f"{path.name} {reason}")
            self.is_whole = False
            return
        tally = FileTally(name=path.relative_to(self._folder).as_posix())
        values = _labels_of_file(rows, self._names, tally)
        ends = ((bool(part.texts), part.success, part.others.get(SUCCESS)) for part in values.values())
        self.described.append(describe_table(tally.name, ends, "episode"))
        self._add_labels(path, values, tally)
        self.warnings += tally.lines()

    def _add_labels(self, path: Path, added: Mapping[str, EpisodeLabels], tally: FileTally) -> None:
        name = os.path.relpath(path, self._folder)
        for key, labels in added.items():
            values = (labels.success, labels.texts, labels.split, labels.spans, labels.others)
            if stamp := stamp_labels(*values):
                self.stamps.setdefault(key, {})[name] = stamp
        self.by_key = _merge_labels(self.by_key, added, tally)


def _files_with(
    list_files: Callable[[], Iterable[SourceFile]], more: Sequence[SourceFile]
) -> Iterator[SourceFile]:
    yield from list_files()
    yield from more


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
    """What the rows of one episode say; values that differ are not read."""
    fields: dict[str, Json] = {}
    for name in dict.fromkeys(name for part in parts for name in part):
        values = [part[name] for part in parts if part.get(name) not in (None, "")]
        if any(value != values[0] for value in values[1:]):
            tally.repeated[key] = None
        elif values:
            fields[name] = values[0]
    return _read_fields(fields, tally)


def _read_fields(fields: Mapping[str, Json], tally: FileTally) -> EpisodeLabels:
    others = dict(fields)
    outcome, instruction, split = others.get(SUCCESS), others.get(INSTRUCTION, ""), others.get(SPLIT)
    success = None if isinstance(outcome, list | Mapping) else parse_outcome(outcome)
    if success is not None:
        del others[SUCCESS]
    elif outcome is not None and not is_outcome_word(outcome):
        tally.no_outcome.setdefault(SUCCESS, []).append(str(outcome))
    texts = instruction if isinstance(instruction, list) else [instruction]
    if _are_texts(texts):
        others.pop(INSTRUCTION, None)
    if isinstance(split, str):
        del others[SPLIT]
    return EpisodeLabels(
        success=success,
        success_source=f"{tally.name}: {SUCCESS}" if success is not None else "",
        texts=distinct_texts([str(text) for text in texts]) if _are_texts(texts) else (),
        split=split.strip() if isinstance(split, str) else "",
        others=others,
    )


def _are_texts(values: Sequence[Json]) -> bool:
    return all(isinstance(value, str) for value in values)


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
            spans=(*other.spans, *labels.spans),
            others={**labels.others, **other.others},
            disputed=frozenset(disputed),
        )
    return merged


def _label_items(items: Iterable[Item], collected: _LabelCollector) -> Iterator[Item]:
    """The items with their labels; where a file could not be read, none is read again for what it lacks."""
    seen: Literal["all", "some"] = "all" if collected.is_whole else "some"
    for item in items:
        labels, stamps = collected.by_key.get(item.key), collected.stamps.get(item.key, {})
        item = replace(item, file_stamps=stamps, seen_labels=seen)
        yield item if labels is None else item.with_change(partial(label_record, labels=labels))


def label_record(record: Record, labels: EpisodeLabels) -> Record:
    """The record with its labels."""
    episode = _add_episode_labels(record.episode, labels)
    is_contradicted = labels.success is not None and episode.success is not labels.success
    warnings = (*record.warnings, _CONTRADICTION) if is_contradicted else record.warnings
    record = replace(record, episode=episode, warnings=warnings)
    return add_segments(record, labels.spans, "spans of files beside the episodes")


def add_segments(record: Record, spans: Iterable[NamedSpan], origin: str) -> Record:
    """The record with spans as segments; those that lie outside the episode are left out, with a warning.

    Args:
        record: The record.
        spans: Spans of it.
        origin: Where they are from, for warnings.
    """
    duration = record.episode.duration_seconds
    located, counts = locate_spans(spans, record.trajectory.timestamps, duration)
    segments = [
        SourceSegment(
            style=part.span.style,
            text=part.span.text,
            start_seconds=part.start_seconds,
            stop_seconds=part.stop_seconds,
            author=part.span.author,
            role=part.span.role,
            camera=part.span.camera,
            fields=part.span.fields,
        )
        for part in located
    ]
    warnings = (*record.warnings, *(f"{origin} {reason}" for reason in counts))
    return replace(record, segments=(*record.segments, *segments), warnings=warnings)


def segment_subtasks(record: Record) -> Record:
    """The record; a list of spans that the spec has as its subtasks becomes segments where all of it can be read."""
    value = record.episode.metadata.get(SUBTASKS)
    if not isinstance(value, list) or not any(isinstance(part, Mapping) for part in value):
        return record
    file = parse_spans(value, SUBTASKS)
    warnings = (*record.warnings, *(f"{SUBTASKS} of the spec {reason}" for reason in file.tally.counts))
    if not file.tally.counts:
        metadata = {name: part for name, part in record.episode.metadata.items() if name != SUBTASKS}
        record = replace(record, episode=replace(record.episode, metadata=metadata))
    return add_segments(replace(record, warnings=warnings), file.spans, f"{SUBTASKS} of the spec")


def _add_episode_labels(episode: Episode, labels: EpisodeLabels) -> Episode:
    """The episode; what its record says stays."""
    instructions = distinct_texts([*episode.instructions, *labels.texts])
    metadata = dict(episode.metadata)
    if labels.others and episode.format == "video":  # as of a table that names the files of videos
        metadata = {**labels.others, **metadata}
    elif labels.others:
        metadata.setdefault(LABELS, dict(labels.others))
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
