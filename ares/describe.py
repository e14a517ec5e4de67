"""Describe: one episode, or a whole workspace, as one JSON document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ares.annotation import Annotation, Maker
from ares.episode import Camera, Json
from ares.jobs.ledger import FAILURES
from ares.search.motion import MOTION

if TYPE_CHECKING:
    import lance

    from ares.store.latest import TableState
    from ares.workspace import Workspace


def describe_episode(ws: Workspace, episode_id: str) -> dict[str, Json]:
    """The document of `ares show`: the episode, its cameras and annotations. Raises RequestError for an unknown id."""
    episode = ws.episode(episode_id)
    makers = ws.annotations.makers()
    facts = ws.annotations.about([episode_id])
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
        "cameras": [_camera(camera) for camera in episode.cameras],
        "success": episode.success,
        "success_source": episode.success_source,
        "state_names": list(episode.state_names),
        "action_names": list(episode.action_names),
        "metadata": dict(episode.metadata),
        "annotations": [describe_annotation(fact, makers.get(fact.maker_id)) for fact in facts],
    }


def _camera(camera: Camera) -> Json:
    return {
        "name": camera.name,
        "role": camera.role,
        "width": camera.width,
        "height": camera.height,
        "codec": camera.codec,
        "frames": camera.media.num_frames,
        "flags": list(camera.flags),
    }


def describe_annotation(fact: Annotation, maker: Maker | None) -> dict[str, Json]:
    """A fact with what made it."""
    return {
        "annotation_id": fact.annotation_id,
        "name": fact.name,
        "value": dict(fact.value),
        "subject": fact.subject,
        "start_seconds": fact.start_seconds,
        "stop_seconds": fact.stop_seconds,
        "camera": fact.camera,
        "frames": list(fact.frames),
        "created": fact.created,
        "maker_id": fact.maker_id,
        "annotator": maker.annotator if maker else None,
        "version": maker.version if maker else None,
        "model": maker.model if maker else None,
        "prompt_hash": maker.prompt_hash if maker else None,
        "usd": fact.cost.usd,
        "tokens_in": fact.cost.tokens_in,
        "tokens_out": fact.cost.tokens_out,
    }


def describe_workspace(ws: Workspace) -> dict[str, Json]:
    """The document of `ares status`: episodes, annotations, sets and tables."""
    total = ws.tables.episodes.count()
    return {
        "workspace": ws.path,
        "episodes": total,
        "datasets": _datasets(ws),
        "annotations": _annotations(ws, total),
        "ingest_failures": _failures(ws).get("ingest", 0),
        "sets": {name: ws.sets[name].episodes for name in ws.sets},
        "tables": _tables(ws),
    }


def _datasets(ws: Workspace) -> dict[str, Json]:
    counts: Counter[str] = Counter()
    for batch in ws.tables.episodes.scan(["dataset"]):
        pairs: Sequence[dict[str, object]] = batch.column("dataset").value_counts().to_pylist()
        counts.update({str(pair["values"]): int(str(pair["counts"])) for pair in pairs})
    return dict(sorted(counts.items()))


def _annotations(ws: Workspace, total: int) -> dict[str, Json]:
    failures, counts = _failures(ws), ws.annotations.counts()
    names = sorted({*counts, *failures} - {"ingest"})
    return {
        name: {
            "done": counts.get(name, 0),
            "missing": total - counts.get(name, 0),
            "failed": failures.get(name, 0),
        }
        for name in names
    }


def _failures(ws: Workspace) -> Counter[str]:
    return Counter(key.split("/", 1)[0] for key, _ in ws.annotations.find(FAILURES))


def failures_by_reason(ws: Workspace) -> list[dict[str, Json]]:
    """The failure ledger: work, reason, count and one example each, most frequent first."""
    found: dict[tuple[str, str], tuple[int, str]] = {}
    for key, document in ws.annotations.find(FAILURES):
        if isinstance(document, dict):
            place = (key.split("/", 1)[0], str(document["reason"]))
            count, example = found.get(place, (0, str(document["detail"])))
            found[place] = (count + 1, example)
    ordered = sorted(found.items(), key=lambda pair: (-pair[1][0], pair[0]))
    return [
        {"work": work, "reason": reason, "count": count, "example": example}
        for (work, reason), (count, example) in ordered
    ]


def _tables(ws: Workspace) -> dict[str, Json]:
    """Each table with its indexes and, where it can be searched, how many rows an index covers."""
    tables = {
        "episodes": _worded(ws, "episodes", "instruction"),
        "trajectories": _worded(ws, "trajectories", ""),
        "segments": _worded(ws, "segments", "text"),
    }
    spaces = ws.tables.spaces()
    moving = [space for space in spaces if space.startswith(MOTION)]
    looks = {f"vectors/{space}": _looks(ws, space) for space in spaces if space not in moving}
    texts = {
        f"texts/{space}": _vectors(ws, f"texts_{space}", ws.tables.texts(space).state())
        for space in spaces
        if space not in moving
    }
    return {**tables, **looks, **texts, **_motion([_looks(ws, space) for space in moving])}


def _motion(spaces: Sequence[Mapping[str, Any]]) -> dict[str, Json]:
    """The vectors of signals in one line: every robot and layout has a table, most of them small."""
    if not spaces:
        return {}
    slowest = [one["p50_ms"] for one in spaces if one["p50_ms"] is not None]
    line: dict[str, Json] = {
        "rows": sum(one["rows"] for one in spaces),
        "indexed": sum(one["indexed"] for one in spaces),
        "recall": min(one["recall"] for one in spaces),
        "p50_ms": max(slowest, default=None),
        "spaces": len(spaces),
    }
    return {"vectors/motion": line}


def _worded(ws: Workspace, name: str, words: str) -> dict[str, Json]:
    """A table whose column `words` can be searched by words, which is exact."""
    dataset = ws.tables.dataset(name)
    indices = [] if dataset is None else _indices(dataset)
    return {
        "rows": 0 if dataset is None else int(dataset.count_rows()),
        "indexed": next((index["rows"] for index in indices if index["columns"] == [words]), None),
        "recall": None,
        "p50_ms": None,
        "indices": [dict(index) for index in indices],
    }


def _looks(ws: Workspace, space: str) -> dict[str, Json]:
    return _vectors(ws, f"vectors_{space}", ws.tables.vectors(space).state())


def _vectors(ws: Workspace, name: str, state: TableState) -> dict[str, Json]:
    """A table of vectors; without an index its search is exact, so its recall is 1."""
    dataset = ws.tables.dataset(name)
    first = next(iter(state.tuning.settings), None) if state.tuning else None
    return {
        "rows": state.rows,
        "indexed": state.indexed,
        "recall": first.recall if first else 1.0,
        "p50_ms": first.p50_ms if first else None,
        "kind": state.tuning.kind if state.tuning else "flat",
        "tuning": asdict(state.tuning) if state.tuning else None,
        "indices": [] if dataset is None else [dict(index) for index in _indices(dataset)],
    }


def _indices(dataset: lance.LanceDataset) -> list[dict[str, Json]]:
    return [
        {
            "name": index.name,
            "kind": index.index_type,
            "columns": list(index.field_names),
            "rows": index.num_rows_indexed,
        }
        for index in dataset.describe_indices()
    ]
