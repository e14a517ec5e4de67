"""`make torture`: hostile files, damaged files, kills, faults of the disk and two jobs at once; prints a table.

Exit status 1 when anything was not as it should be. The seed that is printed repeats a run.
"""

from __future__ import annotations

import argparse
import json
import random
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.torture.changing import ChangingSource
from tests.torture.children import import_everything
from tests.torture.corpus import all_cases
from tests.torture.corpus.run import Corpus
from tests.torture.datasets import WRITERS
from tests.torture.faults import every_point, fault_trials, kill_trials, measure
from tests.torture.fuzz import Fuzzer
from tests.torture.syscalls import can_inject
from tests.torture.trials import Results, Trial, print_table
from tests.torture.two_jobs import Sources, two_job_trials
from tests.torture.workers import worker_trials

# Trials of the short form, which continuous integration runs.
_SHORT_CASES, _SHORT_KINDS, _SHORT_FAULTS, _SHORT_KILLS = 3, 5, 2, 1
_FUZZ_BATCH, _CHANGES_PER_KIND = 20, 15
_WORKER_EPISODES, _WORKER_ROUNDS = 12, 10
# Damage by which faults were found: seed, kind and number of the trial.
_SEEDS = Path(__file__).resolve().parents[1] / "fixtures" / "torture_seeds.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run tries.

    Attributes:
        seed: Seed of every random choice.
        folder: Where everything is written.
        short: Whether only a random sample is tried, within about 20 seconds.
        fuzz_seconds: How long damaged files are tried in the long form.
        match: Only cases, kinds and classes whose name holds this text.
    """

    seed: str
    folder: Path
    short: bool
    fuzz_seconds: float
    match: str

    def rng(self, part: str) -> random.Random:
        """Random choices of one part; the same whatever other parts are tried."""
        return random.Random(f"{self.seed} {part}")


def try_corpus(plan: Plan) -> Iterator[Trial]:
    """Hostile files among good episodes."""
    cases = [case for case in all_cases() if plan.match in f"{case.group} {case.kind}: {case.name}"]
    if plan.short:
        rng = plan.rng("cases")
        kind = rng.choice(sorted({case.kind for case in cases} - {"hdf5"}))
        cases = [case for case in cases if case.group != "bombs" and case.kind == kind]
        cases = rng.sample(cases, min(_SHORT_CASES, len(cases)))
    yield from Corpus(plan.folder / "corpus", plan.seed).trials(cases)


def try_damage(plan: Plan) -> Iterator[Trial]:
    """Damaged files, read in processes of their own; first those that have shown a fault before."""
    for known in json.loads(_SEEDS.read_text()):
        if plan.match in f"damaged {known['kind']}":
            fuzzer = Fuzzer(plan.folder / "known" / known["seed"], known["seed"])
            yield from fuzzer.trials(known["kind"], 1, known["number"])
    fuzzer = Fuzzer(plan.folder / "fuzz", plan.seed)
    kinds = [kind for kind in WRITERS if plan.match in f"damaged {kind}"]
    if plan.short:
        for kind in plan.rng("kinds").sample(kinds, min(_SHORT_KINDS, len(kinds))):
            yield from fuzzer.trials(kind, 1)
        return
    deadline = time.monotonic() + plan.fuzz_seconds
    while kinds and time.monotonic() < deadline:
        for kind in kinds:
            yield from fuzzer.trials(kind, _FUZZ_BATCH)


def try_faults(plan: Plan) -> Iterator[Trial]:
    """Kills and failing file operations of a small job."""
    source = plan.folder / "faults" / "source"
    WRITERS["mcap"](source, 2 if plan.short else 4)
    job = measure(source, plan.folder / "faults" / "workspaces")
    rng = plan.rng("faults")
    points = [
        (fault, at, reads)
        for fault, at, reads in every_point(job)
        if plan.match in f"{fault} at {'read' if reads else 'write'} operation"
    ]
    # In random order: what a run that is ended early has tried is a fair sample.
    yield from fault_trials(
        job, rng.sample(points, min(_SHORT_FAULTS, len(points)) if plan.short else len(points))
    )
    if plan.match in "kill -9 at a random time":
        yield from kill_trials(job, rng, _SHORT_KILLS if plan.short else 40)


def try_changes(plan: Plan) -> Iterator[Trial]:
    """Files that shrink or vanish while they are read."""
    rng = plan.rng("changes")
    kinds = [kind for kind in WRITERS if plan.match in f"files that change {kind}"]
    for kind in rng.sample(kinds, 1) if plan.short and kinds else kinds:
        source = ChangingSource(kind, plan.folder / "changes" / kind)
        yield from source.trials(rng, 1 if plan.short else _CHANGES_PER_KIND)


def try_two_jobs(plan: Plan) -> Iterator[Trial]:
    """Pairs of jobs on one workspace."""
    folder = plan.folder / "two_jobs"
    sources = Sources(first=folder / "first", second=folder / "second", folder=folder)
    WRITERS["mcap"](sources.first, 4, "first")
    WRITERS["bag"](sources.second, 4, "second")
    yield from two_job_trials(sources, plan.rng("two jobs"))


def try_workers(plan: Plan) -> Iterator[Trial]:
    """Workers that are killed while they read, annotate and embed."""
    source = plan.folder / "workers" / "source"
    WRITERS["mcap"](source, _WORKER_EPISODES)
    yield from worker_trials(source, plan.folder / "workers" / "ws", plan.rng("workers"), _WORKER_ROUNDS)


PARTS: dict[str, Callable[[Plan], Iterator[Trial]]] = {
    "corpus": try_corpus,
    "fuzz": try_damage,
    "faults": try_faults,
    "changes": try_changes,
    "jobs": try_two_jobs,
    "workers": try_workers,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts, print the table, and return 1 when a trial failed."""
    options = _parse(arguments)
    seed = options.seed or secrets.token_hex(4)
    short = "--short " if options.short else ""
    print(f'seed {seed}: repeat with ARGS="{short}--seed {seed}"', flush=True)
    import_everything()
    results, started = Results(), time.monotonic()
    folder = Path(options.keep or tempfile.mkdtemp(prefix="ares-torture-"))
    plan = Plan(
        seed=seed, folder=folder, short=options.short, fuzz_seconds=60 * options.minutes, match=options.match
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for part in options.only or PARTS:
            if part in ("faults", "changes") and not can_inject():
                results.notes.append(
                    f"{part}: this machine does not let a process supervise another (seccomp)"
                )
            elif part not in ("jobs", "workers") or not options.short or options.only:
                results.add(PARTS[part](plan))
                print(f"{part} after {time.monotonic() - started:.0f} s: {results.summary}", flush=True)
    except KeyboardInterrupt:
        results.notes.append("the rest: the run was ended early")
    print_table(results, f"make torture, seed {seed}, {time.monotonic() - started:.0f} s")
    _clean_up(folder, bool(options.keep), bool(results.failed))
    return 1 if results.failed else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make torture", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", default="", help="seed of a run that is to be repeated")
    parser.add_argument("--short", action="store_true", help="a random sample, about 20 seconds")
    parser.add_argument("--minutes", type=float, default=10.0, help="time for damaged files (default: 10)")
    parser.add_argument(
        "--only", action="append", choices=list(PARTS), help="only this part; may be repeated"
    )
    parser.add_argument("--match", default="", help="only cases or kinds whose name holds this text")
    parser.add_argument("--keep", default="", help="folder for the data of the trials, kept at the end")
    return parser.parse_args(arguments)


def _clean_up(folder: Path, keep: bool, failed: bool) -> None:
    """Remove what was written, unless somebody will look at it."""
    import shutil

    if keep or failed:
        print(f"the data of the trials are in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
