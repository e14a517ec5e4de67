"""`make judges`: judges with known faults grade made-up worlds; prints what ARES says of them, and what is true.

Named judges do so over HTTP, by the command line; drawn ones and captions with notes in the simulation of it. Exit
status 1 where something ends as it should not. Seeds are printed; the parts "development" and "test" have seeds of
their own, and what chooses anything looks at the first alone.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.judges.exact import CHANCES, likely_counts
from tests.judges.grading import Grading, TrialResult, WorldVariant, world_variants
from tests.judges.parameters import DRAWN, JudgeTrial, named_trials
from tests.judges.scores import Score
from tests.judges.server import JudgeServer
from tests.judges.simulation import grade_notes, simulate, simulate_drawn

# First seed of the worlds of each part.
PARTS = {"development": 1_000, "test": 900_000}
# Captions with a note: so many wordings, and how often each occurs.
_NOTES = ((250, 1), (5, 50))
_MOST_OF_NOTES = 0.005


def main(arguments: Sequence[str] | None = None) -> int:
    """Let judges grade, print what became of it; 1 where something ends as it should not."""
    options = _parse(arguments)
    seed = PARTS[options.part] + options.seed
    print(f"part {options.part}, world seed {seed}, {options.episodes} episodes a world", flush=True)
    trials = {name: trial for name, trial in named_trials().items() if options.match in name}
    bad = 0
    for result in _grade_all(trials, seed, options):
        bad += _print_result(result)
    bad += sum(_print_notes(seed, *row) for row in _NOTES if options.match in "notes")
    bad += sum(_print_draws(kind, seed, options.draws) for kind in DRAWN if options.draws)
    print(f"{bad} not as it should be")
    return 1 if bad else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make judges", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="seed of worlds and draws within the part (0)")
    parser.add_argument("--part", choices=sorted(PARTS), default="development", help="part of the seeds")
    parser.add_argument("--episodes", type=int, default=120, help="episodes of each world (120)")
    parser.add_argument("--draws", type=int, default=0, help="judges that are drawn of each kind (0)")
    parser.add_argument("--match", default="", help='only judges whose name has this text, or "notes"')
    parser.add_argument("--workers", type=int, default=2, help="judges at a time (2)")
    parser.add_argument("--simulated", action="store_true", help="named judges without HTTP, too: seconds")
    return parser.parse_args(arguments)


@contextmanager
def open_gradings(
    folder: Path, trials: Mapping[str, JudgeTrial], variants: Mapping[str, WorldVariant], workers: int
) -> Iterator[list[Grading]]:
    """As many processes that grade as there are workers, each with a separate server."""
    known = [episode for variant in variants.values() for episode in variant.episodes]
    judges = {name: trial.judge for name, trial in trials.items()}
    with ExitStack() as stack:
        gradings = []
        for number in range(workers):
            own = folder / f"worker-{number}"
            own.mkdir()
            server = stack.enter_context(JudgeServer(own, known, judges, keep=own / "requests.json"))
            gradings.append(stack.enter_context(Grading(own, server, variants)))
        yield gradings


def _grade_all(
    trials: Mapping[str, JudgeTrial], seed: int, options: argparse.Namespace
) -> Iterator[TrialResult]:
    """The results in order of the trials."""
    worlds = {trial.world for trial in trials.values()}
    variants = {name: own for name, own in world_variants(seed, options.episodes).items() if name in worlds}
    if options.simulated:
        yield from (simulate(name, trial, variants[trial.world]) for name, trial in trials.items())
        return
    with (
        tempfile.TemporaryDirectory(prefix="ares-judges-") as folder,
        open_gradings(Path(folder), trials, variants, options.workers) as gradings,
        ThreadPoolExecutor(options.workers) as pool,
    ):
        free = list(gradings)

        def work(row: tuple[str, JudgeTrial]) -> TrialResult:
            grading = free.pop()
            try:
                return grading.run(*row)
            finally:
                free.append(grading)

        yield from pool.map(work, trials.items())


def _print_result(result: TrialResult) -> bool:
    score = Score(result)
    print(score.line(), flush=True)
    for line in (result.refused, score.tripwire_line(), result.measured):
        if line:
            print(f"    {line}")
    complaints = list(score.complaints())
    for complaint in complaints:
        print(f"    NOT RIGHT: {complaint}")
    return bool(complaints)


def _print_notes(seed: int, wordings: int, repeated: int) -> bool:
    noted = grade_notes(seed, wordings, repeated)
    print(
        f"notes, {wordings} wordings {repeated} times each, by a judge that obeys anything: {noted}",
        flush=True,
    )
    for sentence in noted.accepted:
        print(f"    {sentence}")
    return len(noted.accepted) > _MOST_OF_NOTES * noted.total


def _print_draws(kind: str, seed: int, draws: int) -> bool:
    """Print how many of some drawn judges are refuted, beside the exact chance; whether that is unlikely."""
    results = [simulate_drawn(kind, seed, number) for number in range(draws)]
    refuted = sum(result.state == "refuted" for result in results)
    chance, (low, high) = CHANCES[kind], likely_counts(CHANCES[kind], draws)
    print(
        f"{kind}: {refuted} of {draws} are refuted; likely are {low} to {high}, as the chance is {chance:.4f}"
    )
    return not low <= refuted <= high


if __name__ == "__main__":
    sys.exit(main())
