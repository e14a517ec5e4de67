"""`make judges`: named judges and judges that are drawn grade made-up worlds; prints what their grades are worth.

Exit status 1 where a judge ends as it should not. Seeds are printed; the parts "development", "thresholds" and "test"
have seeds of their own, and what chooses anything looks at the first two alone.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path

from tests.judges.grading import Grading, TrialResult, world_variants
from tests.judges.parameters import JudgeTrial, draw_trial, named_trials
from tests.judges.scores import DrawSummary, Score, describe_false_rulings, format_table, wilson
from tests.judges.server import JudgeServer

_DRAWN = "drawn-"
# First seed of the worlds of each part.
PARTS = {"development": 1_000, "thresholds": 50_000, "test": 900_000}


def main(arguments: Sequence[str] | None = None) -> int:
    """Let judges grade, print the tables; 1 where one ends as it should not."""
    options = _parse(arguments)
    seed = PARTS[options.part] + options.seed
    print(f"part {options.part}, world seed {seed}, {options.episodes} episodes a world", flush=True)
    named = {name: trial for name, trial in named_trials().items() if options.match in name}
    drawn = {f"{_DRAWN}{seed}-{number}": draw_trial(f"{seed} {number}") for number in range(options.draws)}
    trials = {**({} if options.only_draws else named), **drawn}
    with tempfile.TemporaryDirectory(prefix="ares-judges-") as folder:
        results = _run_all(Path(options.keep or folder), trials, seed, options)
    scores = [Score(results[name]) for name in trials]
    bad = _print_named([score for score in scores if score.result.name in named])
    _print_drawn([score for score in scores if score.result.name in drawn])
    return 1 if bad else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make judges", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="seed of worlds and draws within the part (0)")
    parser.add_argument("--part", choices=sorted(PARTS), default="development", help="part of the seeds")
    parser.add_argument("--episodes", type=int, default=64, help="episodes of each world (64)")
    parser.add_argument("--draws", type=int, default=0, help="how many judges are drawn (0)")
    parser.add_argument("--only-draws", action="store_true", help="leave the named judges out")
    parser.add_argument(
        "--second-run", type=int, default=0, help="quote what is left after so many episodes (0)"
    )
    parser.add_argument("--match", default="", help="only named judges whose name has this text")
    parser.add_argument("--workers", type=int, default=2, help="judges at a time (2)")
    parser.add_argument(
        "--log", default="", help="file that gets a line of JSON for each drawn judge at once"
    )
    parser.add_argument("--keep", default="", help="existing folder in which worlds and requests are kept")
    return parser.parse_args(arguments)


@contextmanager
def open_gradings(
    folder: Path, trials: Mapping[str, JudgeTrial], seed: int, episodes: int, workers: int
) -> Iterator[list[Grading]]:
    """As many processes that grade as there are workers, each with a separate server."""
    variants = world_variants(seed, episodes)
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


def _run_all(
    folder: Path, trials: Mapping[str, JudgeTrial], seed: int, options: argparse.Namespace
) -> dict[str, TrialResult]:
    results: dict[str, TrialResult] = {}
    # In the order of their numbers: what a run that is stopped has seen of drawn judges is a fair sample.
    waiting = iter(trials.items())
    started = time.monotonic()

    def work(grading: Grading) -> None:
        for name, trial in waiting:
            result = (
                grading.quote_second_run(name, trial, options.second_run)
                if options.second_run
                else grading.run(name, trial, counts_calls=not name.startswith(_DRAWN))
            )
            results[name] = result
            took = time.monotonic() - started
            score = Score(result)
            accepted = [caption for caption in result.captions if caption.grade == "acceptable"]
            said = f"{len(results)}/{len(trials)} {took:.0f} s {name} ({trial.world}): {score.state()}"
            print(f"{said}, {score.precision(accepted):.3f} of {len(accepted)}", file=sys.stderr, flush=True)
            if options.log and name.startswith(_DRAWN):
                _append_drawn(Path(options.log), score)

    with (
        open_gradings(folder, trials, seed, options.episodes, options.workers) as gradings,
        ThreadPoolExecutor(options.workers) as pool,
    ):
        for done in [pool.submit(work, grading) for grading in gradings]:
            done.result()
    return results


def _append_drawn(log: Path, score: Score) -> None:
    """What became of a drawn judge, so that a run that is stopped has said something."""
    accepted = [caption for caption in score.result.captions if caption.grade == "acceptable"]
    line = {
        "name": score.result.name,
        "world": score.result.trial.world,
        "state": score.state(),
        "deserved_state": score.deserved_state,
        "accepted": len(accepted),
        "precision": score.precision(accepted),
        "calls": score.calls_with_controls(),
        "judge": asdict(score.result.trial.judge),
    }
    with log.open("a") as file:
        file.write(json.dumps(line) + "\n")


def _print_named(scores: Sequence[Score]) -> int:
    """Print the table of the named judges, and what is wrong; the number of judges that are not as they should be."""
    if not scores:
        return 0
    print(format_table([score.row() for score in scores]), flush=True)
    bad = 0
    for score in scores:
        complaints = score.complaints()
        bad += bool(complaints)
        for complaint in complaints:
            print(f"NOT RIGHT {score.result.name}: {complaint}")
        rulings = describe_false_rulings(score.result) if score.is_truthful else []
        for line in rulings[:12]:
            print(line)
        if score.result.refused:
            print(f"{score.result.name} was refused: {score.result.refused}")
    print(f"{bad} of {len(scores)} judges are not as they should be")
    return bad


def _print_drawn(scores: Sequence[Score]) -> None:
    if not scores:
        return
    for score in scores:
        accepted = [c for c in score.result.captions if c.grade == "acceptable"]
        print(
            f"{score.result.name} {score.result.trial.world} {score.state()} accepts {len(accepted)} "
            f"precision {score.precision(accepted):.3f} {json.dumps(asdict(score.result.trial.judge))}"
        )
    for name, (hits, total) in DrawSummary(scores).shares().items():
        low, high = wilson(hits, total)
        print(f"{name}: {hits} of {total} are trusted [{low:.2f}, {high:.2f}]")


if __name__ == "__main__":
    sys.exit(main())
