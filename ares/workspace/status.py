"""What a workspace holds, counted: the typed document of `ares status`, and the same in one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from ares.annotation import SOURCE_PREFIX, Annotation, Cost, Producer, ProducerKind
from ares.console import count_of
from ares.curation import Sets, list_tags, producer_catalog
from ares.episode import Json
from ares.jobs import FAILURES
from ares.rubric import CONTROL, read_tripwires
from ares.search import SPACE_PREFIX
from ares.store import batched, count_uncounted_answers, read_spending, select_shown
from ares.workspace.foreign_names import explain_mistakes

if TYPE_CHECKING:
    import lance

    from ares.store import AnnotationStore, EpisodeSnapshot, ProducerCatalog, Stores, VectorTableState


# Episodes that are counted at once; up to how many, counting the values of a column is not noticed.
_ID_BATCH, _MAX_COUNTED_ROWS = 10_000, 100_000
_SHOWN_SETS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationStateCounts:
    """Episodes by what became of one kind of annotation.

    Attributes:
        done: Episodes that have it.
        missing: Episodes that do not.
        failed: Failures in the log.
    """

    done: int
    missing: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerStatus:
    """A producer, and whether its values fill the columns.

    Attributes:
        maker_id: Its id.
        kind: What it is.
        version: Version of the plug-in's code.
        model: Model name with the fingerprint of its weights, or "".
        prompt_hash: Hash of prompts and rubric, or "".
        settings: Everything else that changes the value.
        annotations: Number of its annotations.
        current: Whether it is the current producer of its annotator.
        pinned: Whether a person has chosen it.
    """

    maker_id: str
    kind: ProducerKind
    version: str
    model: str
    prompt_hash: str
    settings: Mapping[str, Json]
    annotations: int
    current: bool
    pinned: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """A table of the index.

    Attributes:
        rows: Number of rows.
        indexed: Rows that its index covers, or None without one.
        recall: Share of the nearest vectors that its index returns, or None.
        p50_ms: Median duration of a search in milliseconds, or None when not measured.
        details: Further facts: its indices, the number of spaces, and "tuning", what was built and measured of a
            vector index; nothing has been tuned since 0.2.0, and the word stays for programs that read it.
    """

    rows: int
    indexed: int | None
    recall: float | None
    p50_ms: float | None
    details: Mapping[str, Json] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        """One value of `tables`."""
        fields = asdict(self)
        details = fields.pop("details")
        return {**fields, **details}


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureCount:
    """Failures in the log, by job and reason.

    Attributes:
        work: The job, such as "ingest" or "caption".
        reason: What was wrong.
        count: Number of failures.
        example: The details of one.
    """

    work: str
    reason: str
    count: int
    example: str


@explain_mistakes
@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceStatus:
    """Counts of episodes, annotations, sets, table rows and failures.

    Attributes:
        workspace: Folder or URI.
        episodes: Number of episodes.
        removed: Number of episodes that were removed and can be brought back.
        tags: Episodes by tag.
        datasets: Episodes by dataset.
        annotations: Counts by name of annotation.
        producers: Producers by annotator.
        mixed_producers: By annotator, the episodes that show an older producer: the newest has not annotated them.
        empty_columns: By annotator, why columns are empty: episodes by reason, most frequent first.
        ingest_failures: Failures of ingestion in the log.
        sets: Episodes of the newest version of each set.
        tables: The tables of the index.
        failures: Failures by reason, most frequent first.
        spent: By model, what its calls have cost so far, failed ones included.
        judge_tripwire: By dataset, what the controls of the current judge say, see `ares.rubric.read_tripwires`.
        uncounted_answers: By person, how many answers of files do not count.
        measured: By dataset and question, what people measured, see `ares.review.MeasuredShare.to_json`.
    """

    _called: ClassVar = "ws.status()"
    workspace: str
    episodes: int
    removed: int
    tags: Mapping[str, int]
    datasets: Mapping[str, int]
    annotations: Mapping[str, AnnotationStateCounts]
    producers: Mapping[str, tuple[ProducerStatus, ...]]
    mixed_producers: Mapping[str, int]
    empty_columns: Mapping[str, Mapping[str, int]]
    ingest_failures: int
    sets: Mapping[str, int]
    tables: Mapping[str, TableStatus]
    failures: tuple[FailureCount, ...]
    spent: Mapping[str, Cost]
    judge_tripwire: Mapping[str, Json]
    uncounted_answers: Mapping[str, int]
    measured: Mapping[str, Json]

    def __repr__(self) -> str:
        done = ", ".join(f"{name} {counts.done}" for name, counts in self.annotations.items())
        failed = sum(failure.count for failure in self.failures)
        return (
            f"WorkspaceStatus({self.workspace!r}: {count_of(self.episodes, 'episode')}; "
            f"done: {done or 'nothing'}; "
            f"failed: {failed}; more in .datasets, .annotations, .failures, .sets, .tags)"
        )

    def to_json(self) -> dict[str, Json]:
        """The document of `ares status --json`."""
        tables: dict[str, Json] = {name: table.to_json() for name, table in self.tables.items()}
        # Programs that read the document know a producer by the word of the column `maker_id`.
        words = {"producers": "makers", "mixed_producers": "mixed_makers"}
        return {words.get(name, name): value for name, value in asdict(self).items()} | {"tables": tables}


def producers_to_json(producers: Mapping[str, tuple[ProducerStatus, ...]]) -> dict[str, Json]:
    """Producers by annotator, as `ares status` and `ares use` print them with --json."""
    return {name: [asdict(producer) for producer in members] for name, members in producers.items()}


def workspace_status(stores: Stores) -> WorkspaceStatus:
    """Count episodes, annotations, sets, table rows and failures."""
    total, sets = stores.tables.episodes.count(), Sets(stores.annotations)
    failures = _count_failures(stores)
    return WorkspaceStatus(
        workspace=stores.path,
        episodes=total,
        removed=stores.tables.removed.count(),
        tags={use.tag: use.episodes for use in list_tags(stores)},
        datasets=dict(sorted(count_values(stores.tables.episodes.snapshot(), "dataset").items())),
        annotations=_annotation_counts(stores, total, failures),
        empty_columns=_empty_columns(stores),
        producers=producer_statuses(stores),
        mixed_producers=_mixed_producers(stores),
        uncounted_answers=count_uncounted_answers(stores.annotations),
        ingest_failures=failures.get("ingest", 0),
        sets={name: sets[name].episodes for name in sets},
        tables=_table_statuses(stores),
        failures=failures_by_reason(stores),
        spent=read_spending(stores.annotations),
        judge_tripwire=_judge_tripwire(stores),
        measured=_describe_measured(stores),
    )


def _describe_measured(stores: Stores) -> dict[str, Json]:
    """What people measured, by dataset and question."""
    from ares.review import read_measured_shares

    return {
        dataset: {share.question: share.to_json() for share in shares}
        for dataset, shares in read_measured_shares(stores).items()
    }


def _judge_tripwire(stores: Stores) -> dict[str, Json]:
    """What the controls of the current judges say, by dataset."""
    catalog, tripwires = producer_catalog(stores), read_tripwires(stores.annotations)
    current = [
        catalog.current(name) for name in {producer.annotator for producer in catalog.producers.values()}
    ]
    documents = [document for maker_id in current for document in tripwires.get(maker_id, {}).items()]
    return {dataset: dict(document) for dataset, document in sorted(documents)}


def count_values(table: EpisodeSnapshot, column: str) -> Counter[str]:
    """How often every text occurs in a column of texts, or of lists of texts."""
    import pyarrow as pa

    counts: Counter[str] = Counter()
    for batch in table.reader([column]):
        values = batch[column].flatten() if pa.types.is_list(batch[column].type) else batch[column]
        pairs: Sequence[dict[str, Any]] = values.drop_null().value_counts().to_pylist()
        counts.update({pair["values"]: pair["counts"] for pair in pairs})
    return counts


def _empty_columns(stores: Stores) -> dict[str, dict[str, int]]:
    """By annotator, the episodes of every reason for which it left columns empty."""
    producers = producer_catalog(stores).producers.values()
    declared = {
        column.name: producer.annotator
        for producer in producers
        for column in producer.columns
        if column.is_gap_reason
    }
    table = stores.tables.episodes.snapshot()
    counts = {name: count_values(table, name) for name in sorted(declared) if name in table.columns()}
    return {declared[name]: dict(reasons.most_common()) for name, reasons in counts.items() if reasons}


def _annotation_counts(
    stores: Stores, total: int, failures: Mapping[str, int]
) -> dict[str, AnnotationStateCounts]:
    counts = Counter(stores.annotations.count_episodes())
    removed = stores.tables.removed.ids()
    for start in range(0, len(removed), _ID_BATCH):
        ids = removed.slice(start, _ID_BATCH).to_pylist()
        counts.subtract(stores.annotations.count_episodes(ids))
    # Only some captions have controls: the others lack nothing.
    names = sorted({*counts, *failures} - {"ingest", CONTROL})
    return {
        name: AnnotationStateCounts(
            done=counts.get(name, 0),
            # An episode of which its source says nothing lacks nothing either.
            missing=0 if name.startswith(SOURCE_PREFIX) else total - counts.get(name, 0),
            failed=failures.get(name, 0),
        )
        for name in names
    }


def producer_statuses(stores: Stores) -> dict[str, tuple[ProducerStatus, ...]]:
    """Return by annotator its producers: how many annotations they have, and which of them is current or pinned."""
    catalog = producer_catalog(stores)
    counts = stores.annotations.count_annotations(list(catalog.producers))
    names = sorted({producer.annotator for producer in catalog.producers.values()})
    return {
        name: tuple(
            _producer_status(producer, catalog, counts.get(producer.maker_id, 0))
            for producer in catalog.producers_of([name])
        )
        for name in names
    }


def _mixed_producers(stores: Stores) -> dict[str, int]:
    """By annotator without a pin, the episodes that show an older producer: the newest has not annotated them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    catalog, log, counts = producer_catalog(stores), stores.annotations, dict[str, int]()
    for name in sorted(catalog.several_producers() - catalog.pins.keys()):
        newest = catalog.current(name)
        older = [
            producer.maker_id
            for producer in catalog.producers_of([name])
            if producer.kind in ("model", "code")
        ]
        others = {id for maker_id in older if maker_id != newest for id in log.find_episodes(name, maker_id)}
        others.difference_update(log.find_episodes(name, newest))
        left = pa.array(others - _corrected_episodes(log, catalog, name, others), pa.string())
        # Removed episodes show nothing.
        shown = pc.is_in(left, value_set=stores.tables.episodes.arrow_ids().array)
        counts[name] = pc.sum(shown).as_py() or 0
    return {name: count for name, count in counts.items() if count}


def _corrected_episodes(
    log: AnnotationStore, catalog: ProducerCatalog, name: str, ids: Collection[str]
) -> set[str]:
    """Those of some episodes that show nothing of an annotator's models and code, as people have corrected it."""
    producers = catalog.producers_of(catalog.groups[name])
    people = [producer for producer in producers if producer.kind not in ("model", "code")]
    spoken = {id for producer in people for id in log.find_episodes(producer.annotator, producer.maker_id)}
    by_episode: dict[str, list[Annotation]] = {}
    for part in batched(sorted(spoken.intersection(ids)), _ID_BATCH):
        for annotation in log.find_annotations(part, maker_ids=[producer.maker_id for producer in producers]):
            by_episode.setdefault(annotation.episode_id, []).append(annotation)
    return {
        episode_id
        for episode_id, annotations in by_episode.items()
        if all(
            catalog.producers[annotation.maker_id] in people
            for annotation in select_shown(annotations, catalog, catalog.groups[name])[name]
        )
    }


def _producer_status(producer: Producer, catalog: ProducerCatalog, annotations: int) -> ProducerStatus:
    return ProducerStatus(
        maker_id=producer.maker_id,
        kind=producer.kind,
        version=producer.version,
        model=producer.model,
        prompt_hash=producer.prompt_hash,
        settings=dict(producer.settings),
        annotations=annotations,
        current=catalog.current(producer.annotator) == producer.maker_id,
        pinned=catalog.pins.get(producer.annotator) == producer.maker_id,
    )


def _count_failures(stores: Stores) -> Counter[str]:
    return Counter(key.split("/", 1)[0] for key, _ in stores.annotations.find_documents(FAILURES))


def failures_by_reason(stores: Stores) -> tuple[FailureCount, ...]:
    """Return the logged failures by job and reason, with count and one example each, most frequent first."""
    counts: dict[tuple[str, str], tuple[int, str]] = {}
    for key, document in stores.annotations.find_documents(FAILURES):
        if isinstance(document, dict):
            group = (key.split("/", 1)[0], str(document["reason"]))
            count, example = counts.get(group, (0, str(document["detail"])))
            counts[group] = (count + 1, example)
    ordered = sorted(counts.items(), key=lambda item: (-item[1][0], item[0]))
    return tuple(
        FailureCount(work=work, reason=reason, count=count, example=example)
        for (work, reason), (count, example) in ordered
    )


def _table_statuses(stores: Stores) -> dict[str, TableStatus]:
    """Return each table with its indexes and the number of rows that an index covers."""
    tables = {
        "episodes": _describe_table(stores, "episodes", "instruction"),
        "trajectories": _describe_table(stores, "trajectories", ""),
        "segments": _describe_table(stores, "segments", "text"),
    }
    return {**tables, **vector_tables(stores)}


def vector_tables(stores: Stores) -> dict[str, TableStatus]:
    """Return each table of vectors with the number of rows that its index covers, and what was measured of it."""
    spaces = stores.tables.spaces()
    motion_spaces = [space for space in spaces if space.startswith(SPACE_PREFIX)]
    # A space without vectors is one whose vectors were removed.
    others = [space for space in spaces if space not in motion_spaces]
    frame_spaces = [space for space in others if stores.tables.vectors(space).count()]
    frames = {f"vectors/{space}": _describe_frame_vectors(stores, space) for space in frame_spaces}
    texts = {
        f"texts/{space}": _describe_vectors(stores, f"texts_{space}", stores.tables.texts(space).state())
        for space in frame_spaces
    }
    motion = _merge_motion_spaces([_describe_frame_vectors(stores, space) for space in motion_spaces])
    return {**frames, **texts, **motion}


def _merge_motion_spaces(spaces: Sequence[TableStatus]) -> dict[str, TableStatus]:
    """Merge the motion tables into one entry: there is one table per robot and layout, most of them small."""
    if not spaces:
        return {}
    latencies = [space.p50_ms for space in spaces if space.p50_ms is not None]
    merged = TableStatus(
        rows=sum(space.rows for space in spaces),
        indexed=sum(space.indexed or 0 for space in spaces),
        recall=min(space.recall or 0.0 for space in spaces),
        p50_ms=max(latencies, default=None),
        details={"spaces": len(spaces)},
    )
    return {"vectors/motion": merged}


def _describe_table(stores: Stores, name: str, text_column: str) -> TableStatus:
    """Describe a table; its full-text index on `text_column`, if it has one, is exact."""
    dataset = stores.tables.connection.open_dataset(name)
    indices = [] if dataset is None else _describe_indices(dataset)
    return TableStatus(
        rows=0 if dataset is None else int(dataset.count_rows()),
        indexed=next((index["rows"] for index in indices if index["columns"] == [text_column]), None),
        recall=None,
        p50_ms=None,
        details={"indices": [dict(index) for index in indices]},
    )


def _describe_frame_vectors(stores: Stores, space: str) -> TableStatus:
    return _describe_vectors(stores, f"vectors_{space}", stores.tables.vectors(space).state())


def _describe_vectors(stores: Stores, name: str, state: VectorTableState) -> TableStatus:
    """Describe a table of vectors; without an index its search is exact, so its recall is 1."""
    dataset = stores.tables.connection.open_dataset(name)
    index = state.record
    is_flat = index is None or index.kind == "flat"
    details: dict[str, Json] = {
        "kind": index.kind if index else "flat",
        "tuning": asdict(index) if index else None,
        "indices": [] if dataset is None else [dict(index) for index in _describe_indices(dataset)],
    }
    return TableStatus(
        rows=state.rows,
        indexed=state.indexed,
        recall=1.0 if index is None or is_flat else index.recall,
        p50_ms=None if index is None or is_flat else index.p50_ms,
        details=details,
    )


def _describe_indices(dataset: lance.LanceDataset) -> list[dict[str, Any]]:
    return [
        {
            "name": index.name,
            "kind": index.index_type,
            "columns": list(index.field_names),
            "rows": index.num_rows_indexed,
        }
        for index in dataset.describe_indices()
    ]


def list_workspace_counts(stores: Stores) -> list[str]:
    """For example "1,204 episodes", "3 datasets", "captions 1,200", "sets: sinks, drawers"."""
    table = stores.tables.episodes.snapshot()
    total = table.count()
    parts = [f"{count_of(total, 'episode', comma=True)}"]
    if 0 < total <= _MAX_COUNTED_ROWS:
        parts.append(count_of(len(count_values(table, "dataset")), "dataset"))
        if "caption" in table.columns():
            parts.append(f"captions {table.count('caption IS NOT NULL'):,}")
    names = list(Sets(stores.annotations))
    if names:
        more = f" and {len(names) - _SHOWN_SETS} more" if len(names) > _SHOWN_SETS else ""
        parts.append(f"sets: {', '.join(names[:_SHOWN_SETS])}{more}")
    return parts
