"""Times `ares check`, `annotate motion` and `segment`, exports with texts, and the columns of grades, and their growth.

.venv/bin/python -m benchmarks.operation_speed check --episodes 10000
.venv/bin/python -m benchmarks.operation_speed export --episodes 10000
.venv/bin/python -m benchmarks.operation_speed motion --episodes 10000 100000
.venv/bin/python -m benchmarks.operation_speed segment --episodes 10000
.venv/bin/python -m benchmarks.operation_speed grades --episodes 1000000
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from functools import partial
from math import log
from pathlib import Path
from typing import Any

import ares
from ares.annotation import Annotation, Producer
from ares.episode import Json
from ares.rubric import (
    GRADE_COLUMNS,
    GRADE_TIME_COLUMN,
    JUDGE_TRIPWIRE,
    REFUTED_COLUMN,
    GradeProjection,
)
from ares.store import ProducerCatalog, producer_column, read_pins
from ares.workspace import Workspace
from benchmarks.synthetic_episodes import add_synthetic_episodes, set_annotator_columns
from benchmarks.synthetic_lerobot import TWO_ARMS, write_lerobot_dataset
from benchmarks.timing import processor_seconds


def main() -> None:
    """Print the seconds by the wall and by the processors for each number of episodes, and the exponents of growth."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("operation", choices=[*_OPERATIONS])
    parser.add_argument("--episodes", type=int, nargs="+", default=[10_000])
    arguments = parser.parse_args()
    measure, sizes = _OPERATIONS[arguments.operation], sorted(arguments.episodes)
    seconds = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            wall, cpu, outcome = measure(Path(folder), size)
        seconds.append((wall, cpu))
        print(f"{size} episodes: {wall:.1f} s, processors {cpu:.1f} s, {outcome}")
    if len(sizes) > 1:
        growth = log(sizes[-1] / sizes[0])
        exponents = [log(last / first) / growth for first, last in zip(seconds[0], seconds[-1], strict=True)]
        print(f"exponent of growth: {exponents[0]:.2f}, processors {exponents[1]:.2f}")


def _check(folder: Path, episodes: int) -> tuple[float, float, str]:
    """The library call on episodes of 160 steps of two arms."""
    dataset = write_lerobot_dataset(folder / "generated", episodes, steps=160, rate_hz=20, names=TWO_ARMS)
    report, wall, cpu = _timed(lambda: ares.check(str(dataset)))
    return wall, cpu, f"checked {report.num_episodes}, clean {report.is_clean}"


def _annotate(name: str, folder: Path, episodes: int) -> tuple[float, float, str]:
    """Episodes of 30 steps, 7 + 7 dimensions, without the ingestion."""
    dataset = write_lerobot_dataset(folder / "generated", episodes)
    with ares.open(folder / "ws", create=True) as ws:
        ws.ingest(dataset, quiet=True)
        (report,), wall, cpu = _timed(lambda: ws.annotate(name, quiet=True))
    return wall, cpu, f"kept {report.kept}"


# Segments of an episode of 30 steps at 10 Hz, as many as are made at most: none is below 0.3 s.
_SEGMENTS = 10
_VERBS = ("reach for", "grasp", "lift", "carry", "place")


def _export(folder: Path, episodes: int) -> tuple[float, float, str]:
    """LeRobot with ten texts in each episode of 30 steps, and the same rows without; by turns, the better of two."""
    dataset = write_lerobot_dataset(folder / "generated", episodes)
    with ares.open(folder / "ws", create=True) as ws:
        ws.ingest(dataset, quiet=True)
        _add_texts(ws)
        chosen = ws.sets.create("all", ws.stores.tables.episodes.ids(), {})
        runs: dict[str, list[tuple[float, float]]] = {"with": [], "none": []}
        for number in range(2):
            for name, segments in (("with", []), ("none", ["none"])):
                dest = folder / f"{name}-{number}"
                _, *seconds = _timed(partial(ws.export, chosen, dest, segments=segments, quiet=True))
                runs[name].append((seconds[0], seconds[1]))
    (wall, cpu), (bare_wall, bare_cpu) = (min(runs[name]) for name in ("with", "none"))
    speed = f"speed {bare_wall / wall:.2f} of that, by processors {bare_cpu / cpu:.2f}"
    without = f"without texts {bare_wall:.1f} s, processors {bare_cpu:.1f} s"
    return wall, cpu, f"{episodes * _SEGMENTS} segments; {without}: {speed}"


def _add_texts(ws: Workspace) -> None:
    producer = Producer(annotator="spans", version="1", kind="person", fills_segments=True)
    ws.stores.annotations.add_producer(producer)
    ids = sorted(ws.stores.tables.episodes.ids())
    for start in range(0, len(ids), 1000):
        texts = [
            Annotation(
                episode_id=id,
                name=producer.annotator,
                value={"text": f"{_VERBS[number % len(_VERBS)]} thing {number}", "style": "subtask"},
                maker_id=producer.maker_id,
                subject=id,
                start_seconds=number * 3 / _SEGMENTS,
                stop_seconds=(number + 1) * 3 / _SEGMENTS,
                created="2026-01-01T00:00:00+00:00",
            )
            for id in ids[start : start + 1000]
            for number in range(_SEGMENTS)
        ]
        ws.stores.annotations.append(texts)
    ws.sync()


def _grades(folder: Path, episodes: int) -> tuple[float, float, str]:
    """What the controls of a judge say, as columns of its grades; and once more."""
    with ares.open(folder / "ws", create=True) as ws:
        add_synthetic_episodes(ws, episodes)
        set_annotator_columns(ws)
        _grade_rows(ws)
        tables, log = ws.stores.tables, ws.stores.annotations
        catalog = ProducerCatalog(log.producers(), read_pins(log))
        refresh = partial(GradeProjection().refresh, tables, log, catalog)
        before = _peak_gigabytes()
        _, wall, cpu = _timed(refresh)
        _, again, _ = _timed(refresh)
        grown = _peak_gigabytes() - before
        accepted = tables.episodes.count("acceptable")
    return wall, cpu, f"accepted {accepted}, again {again:.1f} s, {grown:.2f} GB more"


def _grade_rows(ws: Workspace) -> None:
    """Let a judge have graded every episode that is refuted for the later half, which the columns do not show yet."""
    import pyarrow as pa

    producer = Producer(annotator="grade", version="1", model="judge", columns=GRADE_COLUMNS, kind="model")
    ws.stores.annotations.add_producer(producer)
    rows = ws.stores.tables.episodes.read_columns(["episode_id", "dataset", "grade"])
    refuted: Json = {"state": "refuted", "since": len(rows) / 2}
    keys = {f"{producer.maker_id}/{name}": refuted for name in rows["dataset"].unique().to_pylist()}
    ws.stores.annotations.put_documents(JUDGE_TRIPWIRE, keys)
    verdicts = {"acceptable": "VERB=MET", "not_acceptable": "VERB=UNMET", "unsure": "VERB=UNSURE"}
    grades = rows["grade"].to_pylist()
    columns = {
        producer_column("grade"): pa.array([producer.maker_id] * len(rows)),
        REFUTED_COLUMN: pa.nulls(len(rows), pa.bool_()),
        GRADE_TIME_COLUMN: pa.array(range(len(rows)), pa.float64()),
        "grade_verdicts": pa.array([verdicts.get(grade, "VERB=ERROR") for grade in grades]),
    }
    values = pa.table({"episode_id": rows["episode_id"], **columns})
    # As many at once as the projection writes: a join of more does not fit the memory that Lance gives it.
    for start in range(0, len(values), _ROWS_AT_ONCE):
        ws.stores.tables.episodes.set_values(values.slice(start, _ROWS_AT_ONCE))


_ROWS_AT_ONCE = 100_000


def _peak_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


_OPERATIONS: dict[str, Callable[[Path, int], tuple[float, float, str]]] = {
    "check": _check,
    "motion": partial(_annotate, "motion"),
    "segment": partial(_annotate, "segment"),
    "export": _export,
    "grades": _grades,
}


def _timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """What the work gave, and its seconds by the wall and by the processors."""
    start, used = time.monotonic(), processor_seconds()
    result = work()
    return result, time.monotonic() - start, processor_seconds() - used


if __name__ == "__main__":
    main()
