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
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tests.torture.changing import ChangingSource
from tests.torture.children import import_everything
from tests.torture.commands import ACTIONS, COMMANDS, Laboratory, stop_attempts
from tests.torture.corpus import all_cases
from tests.torture.corpus.run import Corpus
from tests.torture.datasets import WRITERS
from tests.torture.fuzz import Fuzzer
from tests.torture.object_store import Bucket
from tests.torture.several_jobs import job_attempts
from tests.torture.syscalls import can_inject
from tests.torture.trials import Attempt, Results, Trial, print_table

# Attempts of each part in the short form, of damage also those of `_SEEDS`; parts that are left out have none.
_SHORT = {"corpus": 3, "fuzz": 11, "commands": 2, "changes": 1, "s3": 1}
# Damage by which faults were found: seed, kind and number of the trial.
_SEEDS = Path(__file__).resolve().parents[1] / "fixtures" / "torture_seeds.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run tries.

    Attributes:
        seed: Seed of every random choice.
        folder: Where everything is written.
        match: Only cases, kinds and classes whose name holds this text.
    """

    seed: str
    folder: Path
    match: str

    def rng(self, part: str) -> random.Random:
        """Random choices of one part; the same whatever other parts are tried."""
        return random.Random(f"{self.seed} {part}")


def try_corpus(plan: Plan) -> Iterator[Attempt]:
    """Hostile files among good episodes."""
    cases = [case for case in all_cases() if plan.match in f"{case.group} {case.kind}: {case.name}"]
    corpus = Corpus(plan.folder / "corpus", plan.seed)
    for case in plan.rng("cases").sample(cases, len(cases)):
        yield partial(corpus.try_case, case)


def try_damage(plan: Plan) -> Iterator[Attempt]:
    """Damaged files, read in separate processes; first those that have shown a fault before."""
    for known in json.loads(_SEEDS.read_text()):
        if plan.match in f"damaged {known['kind']}":
            fuzzer = Fuzzer(plan.folder / "known" / known["seed"], known["seed"])
            yield partial(fuzzer.try_damage, known["kind"], known["number"])
    fuzzer = Fuzzer(plan.folder / "fuzz", plan.seed)
    kinds = [kind for kind in WRITERS if plan.match in f"damaged {kind}"]
    plan.rng("kinds").shuffle(kinds)
    for number in itertools.count() if kinds else ():
        for kind in kinds:
            yield partial(fuzzer.try_damage, kind, number)


def try_commands(plan: Plan) -> Iterator[Attempt]:
    """Every kind of command stopped at each of its operations, then given again; `--match "undo: kill"` chooses."""
    laboratory = Laboratory(plan.folder / "commands")
    yield from stop_attempts(laboratory, COMMANDS, plan.rng("commands"), plan.match)


def try_actions(plan: Plan) -> Iterator[Attempt]:
    """The same of undo, removal, purge and others on episodes with grades."""
    laboratory = Laboratory(plan.folder / "actions")
    yield from stop_attempts(laboratory, ACTIONS, plan.rng("actions"), plan.match)


def try_changes(plan: Plan) -> Iterator[Attempt]:
    """Files that shrink or vanish while they are read."""
    kinds = [kind for kind in WRITERS if plan.match in f"files that change {kind}"]
    sources = [ChangingSource(kind, plan.folder / "changes" / kind) for kind in kinds]
    plan.rng("changes").shuffle(sources)
    for number in itertools.count() if sources else ():
        for source in sources:
            yield partial(source.try_change, plan.rng(f"change {source.kind} {number}"))


def try_s3(plan: Plan) -> Iterator[Attempt]:
    """Datasets on an S3 server that fails."""
    yield from Bucket(plan.folder / "s3").attempts(plan.seed)


def try_jobs(plan: Plan) -> Iterator[Attempt]:
    """Two and four jobs on one workspace."""
    yield from job_attempts(Laboratory(plan.folder / "jobs"), plan.seed)


PARTS: dict[str, Callable[[Plan], Iterator[Attempt]]] = {
    "corpus": try_corpus,
    "fuzz": try_damage,
    "commands": try_commands,
    "actions": try_actions,
    "changes": try_changes,
    "s3": try_s3,
    "jobs": try_jobs,
}
_NEED_INJECTION = ("commands", "actions", "changes")


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the parts in turn, print the table, and return 1 when a trial failed."""
    options = _parse(arguments)
    seed = options.seed or secrets.token_hex(4)
    print(f'seed {seed}: repeat with ARGS="{"--short " if options.short else ""}--seed {seed}"', flush=True)
    import_everything()
    results, started = Results(), time.monotonic()
    folder = Path(options.keep or tempfile.mkdtemp(prefix="ares-torture-"))
    plan = Plan(seed=seed, folder=folder, match=options.match)
    names: list[str] = options.only or [name for name in PARTS if not options.short or name in _SHORT]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for name in _NEED_INJECTION if not can_inject() else ():
        results.notes.append(f"{name}: this machine does not let a process supervise another (seccomp)")
        names = [own for own in names if own != name]
    parts: dict[str, Iterator[Attempt]] = {
        name: itertools.islice(PARTS[name](plan), _SHORT.get(name, 1) if options.short else None)
        for name in names
    }
    is_timed = not options.short and not options.trial
    ends = started + 60 * options.minutes if is_timed else math.inf
    try:
        _take_turns(plan, parts, results, options.trial, ends)
    except KeyboardInterrupt:
        results.notes.append("the rest: the run was ended early")
    print_table(results, f"make torture, seed {seed}, {time.monotonic() - started:.0f} s")
    if options.keep or results.failed:
        print(f"the data of the trials are in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    gc.unfreeze()  # or libraries complain at exit of what was not freed
    return 1 if results.failed else 0


def _take_turns(
    plan: Plan, parts: dict[str, Iterator[Attempt]], results: Results, trial: int, ends: float
) -> None:
    """Try one attempt after the other, each of the part that took least time so far, until the time is over.

    Args:
        plan: What is tried.
        parts: The attempts of each part; those that end leave their time to the others.
        results: Where the trials are counted.
        trial: Number of the only attempt that is carried out; 0 for all.
        ends: When the time is over.
    """
    used, numbers = dict.fromkeys(parts, 0.0), dict.fromkeys(parts, 0)
    while parts and time.monotonic() < ends:
        part = min(parts, key=lambda name: used[name])
        started = time.monotonic()
        numbers[part] += 1
        repeat = f"--seed {plan.seed} --only {part} --trial {numbers[part]}"
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


if __name__ == "__main__":
    sys.exit(main())
