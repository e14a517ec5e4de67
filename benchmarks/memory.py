"""Memory: what operations hold at most, each in a process of its own, in a workspace and in one ten times as large."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import ares
from ares.workspace import Workspace

_SIZES = (100_000, 1_000_000)
_HEAD = [
    "| operation | {:,} | {:,} | growth | seconds at {:,} |".format(*_SIZES, _SIZES[1]),
    "|" + "---|" * 5,
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """What an operation took.

    Attributes:
        work: Its name.
        megabytes: Most memory that its process held, at each size.
        seconds: How long it took at each size, without the start of the process.
    """

    work: str
    megabytes: tuple[float, ...]
    seconds: tuple[float, ...]


def memory() -> Iterator[Peak]:
    """Peaks of every long operation over made-up episodes, each with four facts."""
    with tempfile.TemporaryDirectory() as folder:
        places = [f"{folder}/{size}" for size in _SIZES]
        for place, size in zip(places, _SIZES, strict=True):
            _run(place, "grow", str(size))
        for name in OPERATIONS:
            yield _peak(name, [_run(place, name) for place in places])


def table(peaks: Iterator[Peak]) -> str:
    """The peaks as a Markdown table."""
    return "\n".join([*_HEAD, *map(_line, peaks)])


def _line(peak: Peak) -> str:
    small, large = peak.megabytes
    return (
        f"| {peak.work} | {small:.0f} MB | {large:.0f} MB | {large / small:.2f} | {peak.seconds[-1]:.1f} s |"
    )


def _peak(name: str, found: list[dict[str, float]]) -> Peak:
    megabytes, seconds = (tuple(one[key] for one in found) for key in ("megabytes", "seconds"))
    return Peak(work=name, megabytes=megabytes, seconds=seconds)


def _run(place: str, *asked: str) -> dict[str, float]:
    words = [sys.executable, "-m", "benchmarks.memory", place, *asked]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _grow(ws: Workspace, episodes: int) -> None:
    from benchmarks.grow import grow
    from benchmarks.tell import tell

    grow(ws, episodes)
    tell(ws)


def _apply(ws: Workspace) -> None:
    ws.sync()
    ws.tables.optimize()


def _command(*words: str) -> Callable[[Workspace], None]:
    def run(ws: Workspace) -> None:
        import os
        from contextlib import redirect_stdout

        from app.cli.main import main

        with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
            main([*words, "--workspace", ws.path])

    return run


def _captions(ws: Workspace) -> None:
    """A dry run over the captions, with the judge's maker but without its model."""
    from annotators.base import Annotator, Options
    from annotators.run import quote
    from ares.registry import annotators

    (maker,) = (one for one in ws.annotations.makers().values() if one.annotator == "grade")
    annotators.add(
        "judge", lambda options, ws: Annotator(maker=maker, process=lambda works: [], about="caption")
    )
    quote(ws, ["judge"], Options(settings=ws.settings))


def _page(share: float) -> Callable[[Workspace], None]:
    def read(ws: Workspace) -> None:
        from ares.curate.choose import ORDER

        offset = int(share * ws.tables.episodes.count())
        list(ws.tables.episodes.scan(["episode_id"], limit=24, offset=offset, order_by=ORDER))

    return read


def _facets(ws: Workspace) -> None:
    from ares.search.facets import facets

    facets(ws, "success AND num_steps > 100")


def _ingest_ends(ws: Workspace) -> None:
    from ingest.checked import mend_checks

    ws.tables.episodes.drop_orphans()
    mend_checks(ws)
    ws.tables.episodes.mark_duplicates()


OPERATIONS: dict[str, Callable[[Workspace], object]] = {
    "apply four facts of each episode, compact": _apply,
    "nothing but opening the table": lambda ws: ws.tables.episodes.count(),
    "status": _command("status"),
    "search by words": _command("search", "open the drawer"),
    "search by words with a filter": _command("search", "open the drawer", "--where", "success"),
    "set create of all": _command("set", "create", "every"),
    "set create of 60%": _command("set", "create", "good", "--where", "success"),
    "set show --json": _command("set", "show", "every", "--json"),
    "set diff --json": _command("set", "diff", "every", "good", "--json"),
    "annotate motion, all there": _command("annotate", "motion"),
    "annotate motion --dry-run": _command("annotate", "motion", "--dry-run"),
    "annotate --dry-run over captions": _captions,
    "first page": _page(0),
    "page at 90%": _page(0.9),
    "facets after a filter": _facets,
    "start and end of an ingestion": _ingest_ends,
    "doctor": _command("doctor"),
}


def main() -> None:
    """Do one operation and print what it took as JSON; see `_run`."""
    place, name, *rest = sys.argv[1:]
    ws = ares.open(place)
    started = time.perf_counter()
    _grow(ws, int(rest[0])) if rest else OPERATIONS[name](ws)
    print(json.dumps({"seconds": time.perf_counter() - started, "megabytes": _most_held()}))


def _most_held() -> float:
    """The most that this process held since it began; what the one that started it held is no part of this."""
    lines = Path("/proc/self/status").read_text().splitlines()
    kilobytes = next(line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(kilobytes) * 1024 / 1e6


if __name__ == "__main__":
    main()
