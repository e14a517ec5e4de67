"""`make torture`: hostile and damaged files, kills, faults of disk, S3 and clock, many jobs at once; prints a table.

Exit status 1 when anything was not as it should be. Each failure is printed with the command that tries it again.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import math
import random
import secrets
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.torture.changing import ChangingSource
from tests.torture.children import import_everything
from tests.torture.commands import COMMANDS, command_kills, command_points, command_trials, prepare
from tests.torture.commands_with_faults import SmallWorkspace, clock_attempts, read_attempts
from tests.torture.corpus import all_cases
from tests.torture.corpus.run import Corpus
from tests.torture.datasets import WRITERS
from tests.torture.faults import every_point, fault_trials, kill_trials, measure
from tests.torture.fuzz import Fuzzer
from tests.torture.half_done import GradedWorkspace, stop_attempts
from tests.torture.object_store import Bucket
from tests.torture.several_jobs import Sources, job_attempts
from tests.torture.syscalls import can_inject
from tests.torture.trials import Attempt, Results, Trial, print_table
from tests.torture.workers import worker_attempts

# Trials of the short form, which continuous integration runs.
_SHORT_CASES, _SHORT_KINDS, _SHORT_FAULTS, _SHORT_KILLS = 3, 5, 2, 1
# Of each command in the long form.
_POINTS_PER_COMMAND, _KILLS_PER_COMMAND = 40, 8
_CHANGES_PER_KIND = 15
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
        seconds: How long the long form goes on.
        match: Only cases, kinds and classes whose name holds this text.
    """

    seed: str
    folder: Path
    short: bool
    seconds: float
    match: str

    def rng(self, part: str) -> random.Random:
        """Random choices of one part; the same whatever other parts are tried."""
        return random.Random(f"{self.seed} {part}")


def try_corpus(plan: Plan) -> Iterator[Attempt]:
    """Hostile files among good episodes."""
    cases = [case for case in all_cases() if plan.match in f"{case.group} {case.kind}: {case.name}"]
    rng = plan.rng("cases")
    if plan.short:
        kind = rng.choice(sorted({case.kind for case in cases} - {"hdf5"}))
        cases = [case for case in cases if case.group != "bombs" and case.kind == kind]
    corpus = Corpus(plan.folder / "corpus", plan.seed)
    count = min(_SHORT_CASES, len(cases)) if plan.short else len(cases)
    for case in rng.sample(cases, count):
        yield _first(corpus.trials, [case])


def try_damage(plan: Plan) -> Iterator[Attempt]:
    """Damaged files, read in separate processes; first those that have shown a fault before."""
    for known in json.loads(_SEEDS.read_text()):
        if plan.match in f"damaged {known['kind']}":
            fuzzer = Fuzzer(plan.folder / "known" / known["seed"], known["seed"])
            yield _first(fuzzer.trials, known["kind"], 1, known["number"])
    fuzzer = Fuzzer(plan.folder / "fuzz", plan.seed)
    kinds = [kind for kind in WRITERS if plan.match in f"damaged {kind}"]
    if plan.short:
        kinds = plan.rng("kinds").sample(kinds, min(_SHORT_KINDS, len(kinds)))
    for number in itertools.count() if kinds and not plan.short else range(1):
        for kind in kinds:
            yield _first(fuzzer.trials, kind, 1, number)


def try_faults(plan: Plan) -> Iterator[Attempt]:
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
    for point in rng.sample(points, min(_SHORT_FAULTS, len(points)) if plan.short else len(points)):
        yield _first(fault_trials, job, [point])
    if plan.match in "kill -9 at a random time":
        for number in range(_SHORT_KILLS if plan.short else 40):
            yield _first(kill_trials, job, plan.rng(f"kill {number}"), 1)


def try_changes(plan: Plan) -> Iterator[Attempt]:
    """Files that shrink or vanish while they are read."""
    rng = plan.rng("changes")
    kinds = [kind for kind in WRITERS if plan.match in f"files that change {kind}"]
    kinds = rng.sample(kinds, 1) if plan.short and kinds else kinds
    for number in range(1 if plan.short else _CHANGES_PER_KIND):
        for kind in kinds:
            source = ChangingSource(kind, plan.folder / "changes" / kind)
            yield _first(source.trials, plan.rng(f"change {kind} {number}"), 1)


def try_jobs(plan: Plan) -> Iterator[Attempt]:
    """Two and four jobs on one workspace."""
    folder = plan.folder / "several_jobs"
    sources = Sources(first=folder / "first", second=folder / "second", folder=folder)
    WRITERS["mcap"](sources.first, 4, "first")
    WRITERS["bag"](sources.second, 4, "second")
    yield from job_attempts(sources, plan.seed)


def try_commands(plan: Plan) -> Iterator[Attempt]:
    """Every kind of command with a full disk, an error or a kill at one of its writes, then given again."""
    rng = plan.rng("commands")
    names = [name for name in COMMANDS if plan.match in f"commands {name}"]
    for name in [rng.choice(names)] if plan.short and names else rng.sample(names, len(names)):
        command = prepare(name, plan.folder / "commands")
        points = command_points(command)
        for point in rng.sample(points, 1 if plan.short else min(_POINTS_PER_COMMAND, len(points))):
            yield _first(command_trials, command, [point])
        for number in range(1 if plan.short else _KILLS_PER_COMMAND):
            yield _first(command_kills, command, plan.rng(f"kill {name} {number}"), 1)


def try_reads(plan: Plan) -> Iterator[Attempt]:
    """Each read of each command fails."""
    yield from read_attempts(SmallWorkspace(plan.folder / "reads"), plan.seed)


def try_clocks(plan: Plan) -> Iterator[Attempt]:
    """Commands under a clock that jumps."""
    yield from clock_attempts(SmallWorkspace(plan.folder / "clocks"), plan.seed)


def try_actions(plan: Plan) -> Iterator[Attempt]:
    """Undo, removal, purge and other actions that stop at every write; `--match "undo: kill"` chooses."""
    graded = GradedWorkspace(plan.folder / "actions")
    graded.folder.mkdir(exist_ok=True)
    yield from stop_attempts(graded, plan.rng("actions"), plan.match)


def try_s3(plan: Plan) -> Iterator[Attempt]:
    """Datasets on an S3 server that fails."""
    yield from Bucket(plan.folder / "s3").attempts(plan.seed)


def try_workers(plan: Plan) -> Iterator[Attempt]:
    """Workers that are killed while they read, annotate and embed."""
    source = plan.folder / "workers" / "source"
    WRITERS["mcap"](source, _WORKER_EPISODES)
    yield from worker_attempts(source, plan.folder / "workers" / "ws", plan.seed, _WORKER_ROUNDS)


def _first(trials: Callable[..., Iterable[Trial]], *arguments: Any) -> Attempt:
    """The one trial that a function gives for these arguments."""
    return lambda: next(iter(trials(*arguments)))


Part = Callable[[Plan], Iterator[Attempt]]
PARTS: dict[str, Part] = {
    "corpus": try_corpus,
    "fuzz": try_damage,
    "faults": try_faults,
    "commands": try_commands,
    "changes": try_changes,
    "actions": try_actions,
    "reads": try_reads,
    "clocks": try_clocks,
    "s3": try_s3,
    "jobs": try_jobs,
    "workers": try_workers,
}
_NEED_INJECTION = ("faults", "commands", "changes", "reads", "actions")
# Parts without an end, or with thousands of attempts, of which the short form tries one attempt of one part.
_ENDLESS = ("reads", "clocks", "s3", "actions")


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the parts in turn, print the table, and return 1 when a trial failed."""
    options = _parse(arguments)
    seed = options.seed or secrets.token_hex(4)
    print(f'seed {seed}: repeat with ARGS="{"--short " if options.short else ""}--seed {seed}"', flush=True)
    import_everything()
    results, started = Results(), time.monotonic()
    folder = Path(options.keep or tempfile.mkdtemp(prefix="ares-torture-"))
    plan = Plan(
        seed=seed, folder=folder, short=options.short, seconds=60 * options.minutes, match=options.match
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _take_turns(plan, _choose_parts(plan, options.only, results), results, options.trial)
    except KeyboardInterrupt:
        results.notes.append("the rest: the run was ended early")
    print_table(results, f"make torture, seed {seed}, {time.monotonic() - started:.0f} s")
    _clean_up(folder, bool(options.keep), bool(results.failed))
    gc.unfreeze()  # or libraries complain at exit of what was not freed
    return 1 if results.failed else 0


def _choose_parts(plan: Plan, only: Sequence[str] | None, results: Results) -> dict[str, Iterator[Attempt]]:
    names = list(only or PARTS)
    if plan.short and not only:
        names = [name for name in names if name not in ("jobs", "workers", *_ENDLESS)]
        names.append(plan.rng("parts").choice(_ENDLESS))
    left_out = [] if can_inject() else [name for name in names if name in _NEED_INJECTION]
    results.notes += [
        f"{name}: this machine does not let a process supervise another (seccomp)" for name in left_out
    ]
    return {
        name: itertools.islice(PARTS[name](plan), 1 if plan.short and name in _ENDLESS else None)
        for name in names
        if name not in left_out
    }


def _take_turns(plan: Plan, parts: dict[str, Iterator[Attempt]], results: Results, trial: int) -> None:
    """Try one attempt after the other, each of the part that took least time so far, until the time is over.

    Args:
        plan: What is tried.
        parts: The attempts of each part; those that end leave their time to the others.
        results: Where the trials are counted.
        trial: Number of the only attempt that is carried out; 0 for all.
    """
    ends = math.inf if plan.short or trial else time.monotonic() + plan.seconds
    used, numbers = dict.fromkeys(parts, 0.0), dict.fromkeys(parts, 0)
    while parts and time.monotonic() < ends:
        part = min(parts, key=lambda name: used[name])
        started = time.monotonic()
        numbers[part] += 1
        repeat = f"{'--short ' if plan.short else ''}--seed {plan.seed} --only {part} --trial {numbers[part]}"
        repeat += f" --match '{plan.match}'" if plan.match else ""
        attempt: Attempt | None = None
        try:
            attempt = next(parts[part], None)
            if attempt is not None and trial in (0, numbers[part]):
                results.add(replace(attempt(), repeat=repeat))
        except Exception as error:
            text = "".join(traceback.format_exception(error))[-500:]
            results.add(Trial(group=part, name=f"attempt {numbers[part]}", problem=text, repeat=repeat))
        if attempt is None or trial == numbers[part]:
            del parts[part]
            print(f"{part} after {numbers[part]} attempts: {results.summary}", flush=True)
        used[part] += time.monotonic() - started


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make torture", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", default="", help="seed of a run that is to be repeated")
    parser.add_argument("--short", action="store_true", help="a random sample, about 20 seconds")
    parser.add_argument(
        "--minutes", type=float, default=10.0, help="time, of which parts get equal shares (10)"
    )
    parser.add_argument(
        "--only", action="append", choices=list(PARTS), help="only this part; may be repeated"
    )
    parser.add_argument("--trial", type=int, default=0, help="only the attempt of this number of one part")
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
