"""What is said of the episodes of each dataset, and how they end: the material of which controls are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import nsmallest
from typing import TYPE_CHECKING, NamedTuple

from annotators.caption import SEGMENT_CAPTION
from ares.rubric import KnownText, SlotValues, parse_known_text, slots_from_json, split_outcome

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.annotation import Annotation
    from ares.store import Stores


_MOST_PHRASES = 2_000
# Texts that are read for each phrase: with its outcomes, and without one.
_TEXTS_OF_A_PHRASE = 4
# Counts of batches are added up when there are more.
_MOST_GROUPS = 500_000
# Episodes of a dataset whose captions are read for their slots.
_EPISODES_READ = 400


def count_outcomes(stores: Stores) -> dict[str, Counter[bool | None]]:
    """Episodes by dataset and by the end that the source records, None where it does not."""
    import pyarrow as pa

    counts: dict[str, Counter[bool | None]] = {}
    for batch in stores.tables.episodes.scan(["dataset", "success"]):
        groups = (
            pa.Table.from_batches([batch]).group_by(["dataset", "success"]).aggregate([([], "count_all")])
        )
        for row in groups.to_pylist():
            counts.setdefault(row["dataset"], Counter())[row["success"]] += row["count_all"]
    return counts


class EpisodeStatements(NamedTuple):
    """What is said of an episode: its captions with stored slots, and its other sentences."""

    typed: Sequence[KnownText]
    others: Sequence[KnownText]

    @property
    def slots(self) -> list[SlotValues]:
        """What each of them states."""
        return [text.slots for text in (*self.typed, *self.others)]


def read_texts(
    stores: Stores, statements: Mapping[str, Sequence[EpisodeStatements]], verbs: Mapping[str, str]
) -> dict[str, list[KnownText]]:
    """Sentences by dataset: captions with stored slots, and the most frequent phrases of instructions and captions."""
    texts: dict[str, list[KnownText]] = {}
    for dataset, phrases in _read_phrases(stores).items():
        typed = [text for group in statements.get(dataset, ()) for text in group.typed]
        typed.sort(key=lambda text: (text.text, sorted(text.slots.items())))
        known = {split_outcome(text.text)[1]: text for text in typed}
        others = (parse_known_text(phrase, verbs) for phrase in phrases if phrase not in known)
        texts[dataset] = [*known.values(), *others]
    return texts


def read_statements(stores: Stores, verbs: Mapping[str, str]) -> dict[str, list[EpisodeStatements]]:
    """What is said of some episodes of each dataset.

    They are the same ones in the same order whatever the order of the table and of the log: captions are stored in the
    order in which a server answers.
    """
    if "caption" not in stores.tables.episodes.columns():
        return {}
    statements: dict[str, list[EpisodeStatements]] = {}
    for dataset, rows in _select_captioned_episodes(stores).items():
        typed: dict[str, list[KnownText]] = {}
        for annotation in stores.annotations.find_annotations([row[0] for row in rows], ["caption"]):
            if text := _typed_caption(annotation):
                typed.setdefault(annotation.episode_id, []).append(text)
        for key, instruction, caption in rows:
            typed_texts = typed.get(key, [])
            sentences = [instruction, *([] if typed_texts else [caption])]
            others = [parse_known_text(sentence, verbs) for sentence in sentences if sentence]
            statements.setdefault(dataset, []).append(EpisodeStatements(typed_texts, others))
    return statements


def read_segment_statements(stores: Stores, verbs: Mapping[str, str]) -> dict[str, list[EpisodeStatements]]:
    """What is said of the segments of some episodes of each dataset, each for itself: those with the first ids."""
    import pyarrow as pa

    ids: dict[str, list[str]] = {}
    for batch in stores.tables.episodes.scan(["dataset", "episode_id"]):
        for row in pa.Table.from_batches([batch]).to_pylist():
            ids.setdefault(row["dataset"], []).append(row["episode_id"])
    statements: dict[str, list[EpisodeStatements]] = {}
    for dataset, members in ids.items():
        selected = nsmallest(_EPISODES_READ, members)
        captions = stores.annotations.find_annotations(selected, [SEGMENT_CAPTION])
        captions.sort(
            key=lambda annotation: (annotation.episode_id, annotation.start_seconds, annotation.address)
        )
        typed = (_typed_caption(annotation) for annotation in captions)
        statements[dataset] = [EpisodeStatements([text], []) for text in typed if text]
    return statements


def _select_captioned_episodes(stores: Stores) -> dict[str, list[tuple[str, str | None, str | None]]]:
    """Ids, instructions and captions of some episodes with a caption: those with the first ids, which are hashes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    selected: dict[str, list[tuple[str, str | None, str | None]]] = {}
    columns = ["episode_id", "dataset", "instruction", "caption"]
    for batch in stores.tables.episodes.scan(columns, "caption IS NOT NULL"):
        table = pa.Table.from_batches([batch]).sort_by("episode_id")
        for dataset in table["dataset"].unique().to_pylist():
            first = table.filter(pc.equal(table["dataset"], dataset)).slice(0, _EPISODES_READ)
            texts = zip(*(first[name].to_pylist() for name in ("episode_id", *columns[2:])), strict=True)
            rows = [*selected.get(dataset, ()), *texts]
            selected[dataset] = nsmallest(_EPISODES_READ, rows, key=lambda row: row[0])
    return selected


def _typed_caption(annotation: Annotation) -> KnownText | None:
    slots, text = slots_from_json(annotation.value.get("slots")), annotation.value.get("text")
    return KnownText(text, slots) if slots and isinstance(text, str) else None


def _read_phrases(stores: Stores) -> dict[str, list[str]]:
    """The most frequent action phrases of instructions and captions by dataset, in alphabetical order."""
    import pyarrow as pa

    columns = [name for name in ("instruction", "caption") if name in stores.tables.episodes.columns()]
    groups = pa.schema([("dataset", pa.string()), ("text", pa.string()), ("count", pa.int64())]).empty_table()
    for batch in stores.tables.episodes.scan(["dataset", *columns]):
        table = pa.Table.from_batches([batch])
        counted = [
            _count_texts(table.select(["dataset", name]).rename_columns(["dataset", "text"]))
            for name in columns
        ]
        groups = pa.concat_tables([groups, *counted])
        if len(groups) > _MOST_GROUPS:
            groups = _sum_counts(groups)
    return _most_frequent(_sum_counts(groups))


def _count_texts(table: pa.Table) -> pa.Table:
    """The texts of a table of "dataset" and "text", each once with its "count"."""
    import pyarrow as pa
    import pyarrow.compute as pc

    known = table.filter(pc.is_valid(table["text"]))
    single = pa.array([1], pa.int64()).take(pa.array([0] * len(known), pa.int64()))
    plain = [known[name].cast(pa.string()) for name in ("dataset", "text")]
    return _sum_counts(pa.table([*plain, single], ["dataset", "text", "count"]))


def _sum_counts(groups: pa.Table) -> pa.Table:
    summed = groups.group_by(["dataset", "text"]).aggregate([("count", "sum")])
    return summed.select(["dataset", "text", "count_sum"]).rename_columns(["dataset", "text", "count"])


def _most_frequent(groups: pa.Table) -> dict[str, list[str]]:
    """The phrases of the most frequent texts by dataset: outcomes beside them make few texts of one phrase."""
    import pyarrow.compute as pc

    phrases: dict[str, list[str]] = {}
    for dataset in groups["dataset"].unique().to_pylist():
        of_dataset = groups.filter(pc.equal(groups["dataset"], dataset))
        order = pc.sort_indices(of_dataset, [("count", "descending"), ("text", "ascending")])
        counts: Counter[str] = Counter()
        for row in of_dataset.take(order[: _TEXTS_OF_A_PHRASE * _MOST_PHRASES]).to_pylist():
            counts[split_outcome(row["text"])[1]] += row["count"]
        by_count = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        phrases[dataset] = sorted(phrase for phrase, _ in by_count[:_MOST_PHRASES] if phrase)
    return phrases
