"""Peak memory of long operations, each in a separate process, at two sizes of a workspace."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import ares
from ares.workspace import Workspace

_SIZES = (100_000, 1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPeak:
    """Memory and time of an operation.

    Attributes:
        work: Name of the operation.
        megabytes: Peak memory of its process, at each size.
        seconds: Duration at each size, without the start of the process.
    """

    work: str
    megabytes: tuple[float, ...]
    seconds: tuple[float, ...]


def memory_table(sizes: Sequence[int] = _SIZES) -> str:
    """A Markdown table of every long operation over synthetic episodes with four annotations each, at two sizes."""
    small, large = sizes
    head = f"| operation | {small:,} | {large:,} | growth | seconds at {large:,} |"
    return "\n".join([head, "|" + "---|" * 5, *map(_line, _measure_peaks(sizes))])


def _measure_peaks(sizes: Sequence[int]) -> Iterator[MemoryPeak]:
    with tempfile.TemporaryDirectory() as folder:
        paths = [f"{folder}/{size}" for size in sizes]
        for path, size in zip(paths, sizes, strict=True):
            _run_in_process(path, "grow", str(size))
        for name in OPERATIONS:
            yield _combine_sizes(name, [_run_in_process(path, name) for path in paths])


def _line(peak: MemoryPeak) -> str:
    small, large = peak.megabytes
    return (
        f"| {peak.work} | {small:.0f} MB | {large:.0f} MB | {large / small:.2f} | {peak.seconds[-1]:.1f} s |"
    )


def _combine_sizes(name: str, measurements: list[dict[str, float]]) -> MemoryPeak:
    megabytes, seconds = (
        tuple(measurement[key] for measurement in measurements) for key in ("megabytes", "seconds")
    )
    return MemoryPeak(work=name, megabytes=megabytes, seconds=seconds)


def _run_in_process(path: str, *arguments: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.memory", path, *arguments]
    process = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    measurement: dict[str, float] = json.loads(process.stdout.splitlines()[-1])
    return measurement


def _fill_workspace(ws: Workspace, episodes: int) -> None:
    from benchmarks.synthetic_annotations import append_synthetic_annotations
    from benchmarks.synthetic_episodes import add_synthetic_episodes

    add_synthetic_episodes(ws, episodes)
    append_synthetic_annotations(ws)


def _sync_and_compact(ws: Workspace) -> None:
    ws.sync()
    ws.stores.tables.optimize()


def _run_cli(*arguments: str) -> Callable[[Workspace], None]:
    def run(ws: Workspace) -> None:
        import os
        from contextlib import redirect_stdout

        from ares_app.cli.main import main

        with Path(os.devnull).open("w") as null, redirect_stdout(null):
            main([*arguments, "--workspace", ws.path])

    return run


def _estimate_caption_judge(ws: Workspace) -> None:
    """Estimate the cost of grading the captions, with the producer of the judge but without its model."""
    from ares.registry import annotators

    (producer,) = (
        producer for producer in ws.stores.annotations.producers().values() if producer.annotator == "grade"
    )
    annotators.add(
        "judge",
        lambda options, stores: SimpleNamespace(producer=producer, process=lambda works: []),
    )
    ws.estimate("judge")


def _read_page(share: float) -> Callable[[Workspace], None]:
    def read(ws: Workspace) -> None:
        from ares.curation import SOURCE_ORDER

        offset = int(share * ws.stores.tables.episodes.count())
        list(ws.stores.tables.episodes.scan(["episode_id"], limit=24, offset=offset, order_by=SOURCE_ORDER))

    return read


def _count_facets(ws: Workspace) -> None:
    from ares.search import compute_facets

    compute_facets(ws.stores, "success AND num_steps > 100")


def _finish_ingestion(ws: Workspace) -> None:
    from ares_ingest.pipeline import check_unchecked_episodes

    ws.stores.tables.episodes.drop_orphans()
    check_unchecked_episodes(ws.stores)
    ws.stores.tables.episodes.mark_duplicates()


OPERATIONS: dict[str, Callable[[Workspace], object]] = {
    "apply four facts of each episode, compact": _sync_and_compact,
    "nothing but opening the table": lambda ws: ws.stores.tables.episodes.count(),
    "status": _run_cli("status"),
    "search by words": _run_cli("search", "open the drawer"),
    "search by words with a filter": _run_cli("search", "open the drawer", "--where", "success"),
    "set create of all": _run_cli("set", "create", "every"),
    "set create of 60%": _run_cli("set", "create", "good", "--where", "success"),
    "set show --json": _run_cli("set", "show", "every", "--json"),
    "set diff --json": _run_cli("set", "diff", "every", "good", "--json"),
    "annotate motion, all there": _run_cli("annotate", "motion"),
    "annotate motion --dry-run": _run_cli("annotate", "motion", "--dry-run"),
    "annotate --dry-run over captions": _estimate_caption_judge,
    "first page": _read_page(0),
    "page at 90%": _read_page(0.9),
    "facets after a filter": _count_facets,
    "start and end of an ingestion": _finish_ingestion,
    "doctor": _run_cli("doctor"),
}


def main() -> None:
    """Run one operation and print its time and peak memory as JSON; see `_run_in_process`."""
    path, name, *sizes = sys.argv[1:]
    ws = ares.open(path, create=True)
    started = time.perf_counter()
    _fill_workspace(ws, int(sizes[0])) if sizes else OPERATIONS[name](ws)
    print(json.dumps({"seconds": time.perf_counter() - started, "megabytes": _peak_megabytes()}))


def _peak_megabytes() -> float:
    """Peak memory of this process since its start; that of its parent process does not count."""
    lines = Path("/proc/self/status").read_text().splitlines()
    kilobytes = next(line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(kilobytes) * 1024 / 1e6


if __name__ == "__main__":
    main()
