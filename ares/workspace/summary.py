"""What is known of one episode, as `ares show` prints it, and of a workspace: its counts, and in one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from ares.annotation import SOURCE_PREFIX, Annotation, Maker
from ares.console import count_of
from ares.curation import Sets, list_tags, maker_catalog, notes_of, tags_of
from ares.episode import Camera, Episode, Json
from ares.jobs import FAILURES
from ares.rubric import CONTROL, TRUST_COLUMN, read_judge_trust
from ares.search import SPACE_PREFIX, list_own_vectors
from ares.store import (
    batched,
    count_uncounted_answers,
    ids_filter,
    list_uncounted_answers,
    make_stored_segments,
    origin_of,
    person_of,
    read_spending,
    select_shown,
)
from ares.workspace.status import (
    AnnotationStateCounts,
    ClockStatus,
    FailureCount,
    MakerStatus,
    TableStatus,
    WorkspaceStatus,
)

if TYPE_CHECKING:
    import lance

    from ares.store import AnnotationStore, MakerCatalog, Stores, VectorTableState


_ID_BATCH = 10_000
# Kind and key of what is there once instructions were audited, as `ares.review` writes it.
_AUDIT_STAMPS, _LAST = "instruction_audit_stamps", "last"


def describe_episode(stores: Stores, episode_id: str) -> dict[str, Json]:
    """Return an episode with its cameras, its segments where it has any, and its annotations.

    Args:
        stores: Stores of the workspace.
        episode_id: Its id, or the unique start of it.

    Raises:
        RequestError: No episode or several have such an id.
    """
    episode = stores.tables.episodes.get_episode(stores.tables.episodes.resolve_id(episode_id))
    catalog = maker_catalog(stores)
    annotations = stores.annotations.find_annotations([episode.episode_id])
    return {
        "episode_id": episode.episode_id,
        "format": episode.format,
        "dataset": episode.dataset,
        "version": episode.version,
        "split": episode.split,
        "key": episode.key,
        "source": episode.source,
        "content_hash": episode.content_hash,
        "robot": episode.robot,
        "instruction": episode.instruction,
        "instructions": list(episode.instructions),
        "num_steps": episode.num_steps,
        "duration_seconds": episode.duration_seconds,
        "rate_hz": episode.rate_hz,
        "rate_source": episode.rate_source,
        "claimed_rate_hz": episode.claimed_rate_hz,
        "measured_rate_hz": episode.measured_rate_hz,
        "rate_spread": episode.rate_spread,
        "clock_shift_seconds": episode.clock_shift_seconds,
        "frame_pairing": episode.frame_pairing,
        "cameras": [_camera_json(camera) for camera in episode.cameras],
        **({"depth": list[Json](depth)} if (depth := episode.depth_texts) else {}),
        "success": episode.success,
        "success_source": episode.success_source,
        "state_names": list(episode.state_names),
        "action_names": list(episode.action_names),
        "metadata": dict(episode.metadata),
        "tags": list[Json](tags_of(stores, episode.episode_id)),
        "notes": list[Json](notes_of(stores, episode.episode_id)),
        **_describe_judges(stores, episode),
        **_describe_segments(stores, episode, annotations, catalog),
        "annotations": describe_annotations(annotations, catalog),
        **_describe_uncounted(stores, episode.episode_id),
    }


def _describe_uncounted(stores: Stores, episode_id: str) -> dict[str, Json]:
    """What people say of an episode in files and does not count, where there is any."""
    answers: list[Json] = [
        {
            **_describe_annotation(answer.annotation, answer.maker, False),
            "origin": answer.origin,
            "person": person_of(answer.maker),
        }
        for answer in list_uncounted_answers(stores.annotations, episode_id)
    ]
    return {"uncounted_answers": answers} if answers else {}


def _describe_segments(
    stores: Stores, episode: Episode, annotations: Sequence[Annotation], catalog: MakerCatalog
) -> dict[str, Json]:
    """The shown segments of an episode, in order of time, where it has others than captions of all of it."""
    segmenters = {id for id, maker in catalog.makers.items() if maker.fills_segments}
    if not any(
        annotation.value.get("style")
        or annotation.stop_seconds - annotation.start_seconds < episode.duration_seconds
        for annotation in annotations
        if annotation.maker_id in segmenters
    ):
        return {}
    rows = stores.tables.segments.read(ids_filter([episode.episode_id]))
    return {"segments": [segment.to_json() for segment in make_stored_segments(rows)]}


def _describe_judges(stores: Stores, episode: Episode) -> dict[str, Json]:
    """What the controls say of the judge of its caption, None without a grade; and what the audit, where there is one.

    The audit says it of the instruction, before a person ruled on it.
    """
    described: dict[str, Json] = {"grade_trust": None}
    if TRUST_COLUMN in stores.tables.episodes.columns():
        where = ids_filter([episode.episode_id])
        rows = stores.tables.episodes.read_columns([TRUST_COLUMN], where).to_pylist()
        described["grade_trust"] = str(rows[0][TRUST_COLUMN]) if rows and rows[0][TRUST_COLUMN] else None
    if stores.annotations.get_document(_AUDIT_STAMPS, _LAST) is not None:
        from ares.review import find_audit_verdicts

        verdicts = find_audit_verdicts(stores, {episode.episode_id: episode.dataset})
        if verdict := verdicts.get(episode.episode_id):
            described["instruction_audit"] = verdict.to_json()
    return described


def _camera_json(camera: Camera) -> Json:
    return {
        "name": camera.name,
        "role": camera.role,
        "width": camera.width,
        "height": camera.height,
        "codec": camera.codec,
        "frames": camera.media.num_frames,
        "flags": list(camera.flags),
    }


def describe_annotations(annotations: Sequence[Annotation], catalog: MakerCatalog) -> list[Json]:
    """Return all annotations of one episode with their makers, and whether each fills columns or segments.

    Args:
        annotations: The annotations, in the order of the log.
        catalog: The makers.
    """
    shown = shown_annotation_ids(annotations, catalog)
    return [
        _describe_annotation(
            annotation, catalog.makers.get(annotation.maker_id), annotation.annotation_id in shown
        )
        for annotation in annotations
    ]


def shown_annotation_ids(annotations: Sequence[Annotation], catalog: MakerCatalog) -> set[str]:
    """Return which annotations of one episode, in the order of the log, the tables show."""
    from ares.store import select_shown

    names = {maker.annotator for maker in catalog.makers.values()}
    shown = select_shown(annotations, catalog, names)
    return {annotation.annotation_id for members in shown.values() for annotation in members}


def _describe_annotation(annotation: Annotation, maker: Maker | None, shown: bool) -> dict[str, Json]:
    origin: dict[str, Json] = {"origin": origin_of(annotation)} if maker and maker.kind == "person" else {}
    return {
        "annotation_id": annotation.annotation_id,
        "name": annotation.name,
        "value": dict(annotation.value),
        "subject": annotation.subject,
        "subject_kind": annotation.subject_kind,
        "part": annotation.part,
        "ordinal": annotation.ordinal,
        "revision": annotation.revision,
        "shown": shown,
        "start_seconds": annotation.start_seconds,
        "stop_seconds": annotation.stop_seconds,
        "camera": annotation.camera,
        "frames": list(annotation.frames),
        "created": annotation.created,
        "maker_id": annotation.maker_id,
        "annotator": maker.annotator if maker else None,
        "kind": maker.kind if maker else None,
        "version": maker.version if maker else None,
        "model": maker.model if maker else None,
        "prompt_hash": maker.prompt_hash if maker else None,
        "usd": annotation.cost.usd,
        "tokens_in": annotation.cost.tokens_in,
        "tokens_out": annotation.cost.tokens_out,
        **origin,
    }


def workspace_status(stores: Stores) -> WorkspaceStatus:
    """Count episodes, annotations, sets, table rows and failures."""
    total, sets = stores.tables.episodes.count(), Sets(stores.annotations)
    failures = _count_failures(stores)
    return WorkspaceStatus(
        workspace=stores.path,
        episodes=total,
        removed=stores.tables.removed.count(),
        tags={use.tag: use.episodes for use in list_tags(stores)},
        datasets=_count_episodes_by_dataset(stores),
        clocks=_measured_clocks(stores),
        annotations=_annotation_counts(stores, total, failures),
        empty_columns=_empty_columns(stores),
        makers=maker_statuses(stores),
        mixed_makers=_mixed_makers(stores),
        uncounted_answers=count_uncounted_answers(stores.annotations),
        ingest_failures=failures.get("ingest", 0),
        sets={name: sets[name].episodes for name in sets},
        tables=_table_statuses(stores),
        failures=failures_by_reason(stores),
        spent=read_spending(stores.annotations),
        judge_trust=_judge_trust(stores),
    )


def _judge_trust(stores: Stores) -> dict[str, Json]:
    """What the controls of the current judges say, by dataset."""
    catalog, trust = maker_catalog(stores), read_judge_trust(stores.annotations)
    current = [catalog.current(name) for name in {maker.annotator for maker in catalog.makers.values()}]
    documents = [document for maker_id in current for document in trust.get(maker_id, {}).items()]
    return {dataset: dict(document) for dataset, document in sorted(documents)}


def _count_episodes_by_dataset(stores: Stores) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for batch in stores.tables.episodes.scan(["dataset"]):
        pairs: Sequence[dict[str, object]] = batch.column("dataset").value_counts().to_pylist()
        counts.update({str(pair["values"]): int(str(pair["counts"])) for pair in pairs})
    return dict(sorted(counts.items()))


def _empty_columns(stores: Stores) -> dict[str, dict[str, int]]:
    """By annotator, the episodes of every reason for which it left columns empty."""
    makers = maker_catalog(stores).makers.values()
    declared = {
        column.name: maker.annotator for maker in makers for column in maker.columns if column.is_gap_reason
    }
    existing = stores.tables.episodes.columns()
    counts = {name: _count_items(stores, name) for name in sorted(declared) if name in existing}
    return {declared[name]: dict(reasons.most_common()) for name, reasons in counts.items() if reasons}


def _count_items(stores: Stores, column: str) -> Counter[str]:
    """How often every text occurs in a column of lists."""
    counts: Counter[str] = Counter()
    for batch in stores.tables.episodes.scan([column]):
        pairs: Sequence[dict[str, object]] = batch.column(column).flatten().value_counts().to_pylist()
        counts.update({str(pair["values"]): int(str(pair["counts"])) for pair in pairs})
    return counts


def _measured_clocks(stores: Stores) -> dict[str, ClockStatus]:
    """By dataset, the episodes whose claimed rate gave way to that of their stamps."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = ["dataset", "claimed_rate_hz", "measured_rate_hz"]
    parts = []
    for batch in stores.tables.episodes.scan([*columns, "rate_source"]):
        is_measured = pc.equal(batch.column("rate_source"), "measured")
        kept = pc.and_(is_measured, pc.is_valid(batch.column("claimed_rate_hz")))
        parts.append(batch.select(columns).filter(kept))
    if not any(part.num_rows for part in parts):
        return {}
    rates = [(name, kind) for name in columns[1:] for kind in ("min", "max")]
    groups = pa.Table.from_batches(parts).group_by("dataset").aggregate([("dataset", "count"), *rates])
    return {
        row["dataset"]: ClockStatus(
            episodes=row["dataset_count"],
            claimed_hz=(row["claimed_rate_hz_min"], row["claimed_rate_hz_max"]),
            measured_hz=(row["measured_rate_hz_min"], row["measured_rate_hz_max"]),
        )
        for row in sorted(groups.to_pylist(), key=lambda row: str(row["dataset"]))
    }


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


def maker_statuses(stores: Stores) -> dict[str, tuple[MakerStatus, ...]]:
    """Return by annotator its makers: how many annotations they have, and which of them is current or pinned."""
    catalog = maker_catalog(stores)
    counts = stores.annotations.count_annotations(list(catalog.makers))
    names = sorted({maker.annotator for maker in catalog.makers.values()})
    return {
        name: tuple(
            _maker_status(maker, catalog, counts.get(maker.maker_id, 0))
            for maker in catalog.makers_of([name])
        )
        for name in names
    }


def _mixed_makers(stores: Stores) -> dict[str, int]:
    """By annotator without a pinned maker, the episodes that show an older maker: the newest has not annotated them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    catalog, log, counts = maker_catalog(stores), stores.annotations, dict[str, int]()
    for name in sorted(catalog.several_makers() - catalog.pins.keys()):
        newest = catalog.current(name)
        older = [maker.maker_id for maker in catalog.makers_of([name]) if maker.kind in ("model", "code")]
        others = {id for maker_id in older if maker_id != newest for id in log.find_episodes(name, maker_id)}
        others.difference_update(log.find_episodes(name, newest))
        left = pa.array(others - _corrected_episodes(log, catalog, name, others), pa.string())
        # Removed episodes show nothing.
        shown = pc.is_in(left, value_set=stores.tables.episodes.arrow_ids().array)
        counts[name] = pc.sum(shown).as_py() or 0
    return {name: count for name, count in counts.items() if count}


def _corrected_episodes(
    log: AnnotationStore, catalog: MakerCatalog, name: str, ids: Collection[str]
) -> set[str]:
    """Those of some episodes that show nothing of an annotator's models and code, as people have corrected it."""
    makers = catalog.makers_of(catalog.groups[name])
    people = [maker for maker in makers if maker.kind not in ("model", "code")]
    spoken = {id for maker in people for id in log.find_episodes(maker.annotator, maker.maker_id)}
    by_episode: dict[str, list[Annotation]] = {}
    for part in batched(sorted(spoken.intersection(ids)), _ID_BATCH):
        for annotation in log.find_annotations(part, maker_ids=[maker.maker_id for maker in makers]):
            by_episode.setdefault(annotation.episode_id, []).append(annotation)
    return {
        episode_id
        for episode_id, annotations in by_episode.items()
        if all(
            catalog.makers[annotation.maker_id] in people
            for annotation in select_shown(annotations, catalog, catalog.groups[name])[name]
        )
    }


def _maker_status(maker: Maker, catalog: MakerCatalog, annotations: int) -> MakerStatus:
    return MakerStatus(
        maker_id=maker.maker_id,
        kind=maker.kind,
        version=maker.version,
        model=maker.model,
        prompt_hash=maker.prompt_hash,
        settings=dict(maker.settings),
        annotations=annotations,
        current=catalog.current(maker.annotator) == maker.maker_id,
        pinned=catalog.pins.get(maker.annotator) == maker.maker_id,
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
    own = list_own_vectors(stores)
    # A space without vectors is one whose vectors were removed.
    others = [space for space in spaces if space not in motion_spaces]
    frame_spaces = [space for space in others if stores.tables.vectors(space).count()]
    frames = {f"vectors/{space}": _describe_frame_vectors(stores, space) for space in frame_spaces}
    for space in own:
        table = frames[f"vectors/{space}"]
        frames[f"vectors/{space}"] = replace(table, details={**table.details, "own": True})
    texts = {
        f"texts/{space}": _describe_vectors(stores, f"texts_{space}", stores.tables.texts(space).state())
        for space in frame_spaces
        if space not in own
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


# Up to so many episodes, counting the values of a column is not noticed.
_MAX_COUNTED_ROWS = 100_000
_SHOWN_SETS = 8


def list_workspace_counts(stores: Stores) -> list[str]:
    """For example "1,204 episodes", "3 datasets", "captions 1,200", "sets: sinks, drawers"."""
    table = stores.tables.episodes.snapshot()
    total = table.count()
    parts = [f"{count_of(total, 'episode', comma=True)}"]
    if 0 < total <= _MAX_COUNTED_ROWS:
        batches = table.scan(["dataset"])
        datasets = {name for batch in batches for name in batch["dataset"].unique().to_pylist()}
        parts.append(f"{len(datasets)} dataset{'s' if len(datasets) != 1 else ''}")
        if "caption" in table.columns():
            parts.append(f"captions {table.count('caption IS NOT NULL'):,}")
    names = list(Sets(stores.annotations))
    if names:
        more = f" and {len(names) - _SHOWN_SETS} more" if len(names) > _SHOWN_SETS else ""
        parts.append(f"sets: {', '.join(names[:_SHOWN_SETS])}{more}")
    return parts
