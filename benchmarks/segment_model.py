"""`ares annotate segment --by model` at a server that knows the log and errs as planted: errors, seams, cost, quotes.

.venv/bin/python -m benchmarks.segment_model --episodes 40 --seconds 120

A SCRIPTED SERVER: it says what ARES makes of replies, and nothing of how well any model segments.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ares_annotators.segment import align_times, plan_windows
from tests.generators.span_server import (
    PlantedErrors,
    SpanServer,
    ToldEpisode,
    draw_log,
    may_be_missed,
    tell,
    write_marked_videos,
)

if TYPE_CHECKING:
    from ares.annotation import Annotation, Cost
    from ares.workspace import Workspace

_MODEL = "Qwen/Qwen2.5-VL-7B-Instruct"
_RATE_HZ, _DRAWS = 5.0, 2_000
# Dollars of a million tokens read and written.
_PRICE = (0.3, 1.2)
# Episodes of the run whose cost a quote is made from.
_PILOT = 5
# What is planted in each row: noise, missed and invented events; and in every row what each window errs.
_ROWS = (
    PlantedErrors(noise=0.1, jitter=0.2, one_sided=0.3),
    PlantedErrors(noise=0.3, jitter=0.2, one_sided=0.3),
    PlantedErrors(noise=1.0, jitter=0.2, one_sided=0.3),
    PlantedErrors(noise=0.1, missed=0.2, jitter=0.2, one_sided=0.3),
    PlantedErrors(noise=0.1, invented=2.0, jitter=0.2, one_sided=0.3),
    PlantedErrors(noise=0.5, missed=0.1, invented=1.0, jitter=0.2, one_sided=0.3),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredEpisode:
    """What was found in an episode, beside what was told and what happened.

    Attributes:
        errors: Seconds found less seconds of the log, of the events that were found.
        events: Events of the log that may be found: all but the first, which begins with the episode.
        may_be_missed: Those of them that the model may miss.
        missed: Those that were not found.
        invented: Boundaries found that are no event.
        minutes: Length of the episode.
        at_seam: Events that the model tells of where two windows overlap.
        lost: Those of them that were not found.
        doubled: Boundaries more than were told, where two windows overlap.
    """

    errors: tuple[float, ...]
    events: int
    may_be_missed: int
    missed: int
    invented: int
    minutes: float
    at_seam: int
    lost: int
    doubled: int


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--episodes", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=120.0, help="length of an episode")
    parser.add_argument("--rows", type=int, default=len(_ROWS), help="so many of the rows of planted errors")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print_planted(_ROWS[: arguments.rows], arguments.episodes, arguments.seconds, arguments.seed)


def print_planted(rows: Sequence[PlantedErrors], episodes: int, seconds: float, seed: int) -> None:
    """One row for each model: what was planted in it, what was measured, its cost, and what was quoted."""
    from ares.settings import Price, Settings
    from ares.workspace import open_workspace

    told = {
        f"{_MODEL}-{number}": draw_episodes(errors, episodes, seconds, seed)
        for number, errors in enumerate(rows)
    }
    models = {name: (errors, told[name]) for errors, name in zip(rows, told, strict=True)}
    settings = Settings(price=Price(usd_per_mtok_in=_PRICE[0], usd_per_mtok_out=_PRICE[1]))
    with tempfile.TemporaryDirectory() as folder, SpanServer(models) as server:
        videos = write_marked_videos(Path(folder) / "videos", range(episodes), seconds, _RATE_HZ)
        with open_workspace(str(Path(folder) / "workspace"), settings) as workspace:
            workspace.ingest(videos, quiet=True)
            print(
                "| planted: noise, missed, invented a minute | noise | missed | invented a minute "
                "| told at seams, lost, doubled | calls, tokens, USD an hour of video | calls, tokens quoted / paid "
                "| first quote | again |"
            )
            print("|---|" + "---|" * 8)
            for name, (errors, logs) in models.items():
                print(measure_model(workspace, f"openai:{name}@{server.url}", errors, logs))


def draw_episodes(errors: PlantedErrors, episodes: int, seconds: float, seed: int) -> dict[int, ToldEpisode]:
    """Logs whose events are so far apart that the noise changes no order, and what a model tells of them."""
    drawn: dict[int, ToldEpisode] = {}
    for number in range(episodes):
        dice = random.Random(f"log {seed} {number}")
        events = draw_log(dice, seconds, max(1.2, 5 * errors.noise))
        drawn[number] = tell(number, events, errors, random.Random(f"told {seed} {number} {errors}"))
    return drawn


def measure_model(
    workspace: Workspace, spec: str, errors: PlantedErrors, logs: dict[int, ToldEpisode]
) -> str:
    """Segment all episodes by a model, the first of them for a quote, and compare with their logs."""
    keywords: dict[str, Any] = {"model": spec, "options": {"by": "model"}}
    (first,) = workspace.estimate("segment", **keywords)
    (pilot,) = workspace.annotate("segment", limit=_PILOT, quiet=True, **keywords)
    (quote,) = workspace.estimate("segment", **keywords)
    (rest,) = workspace.annotate("segment", quiet=True, **keywords)
    (again,) = workspace.annotate("segment", quiet=True, **keywords)
    paid = pilot.cost + rest.cost
    log = workspace.stores.annotations
    ids = log.find_episodes("segment", rest.producer)
    by_episode: dict[str, list[Annotation]] = {id: [] for id in ids}
    for annotation in log.find_annotations(ids, maker_ids=[rest.producer]):
        by_episode[annotation.episode_id].append(annotation)
    numbers = {
        own.episode_id: int(own.key.partition(".")[0]) for own in workspace.stores.tables.episodes.get(ids)
    }
    measured = [measure_episode(logs[numbers[id]], spans, errors.noise) for id, spans in by_episode.items()]
    hours = sum(own.minutes for own in measured) / 60
    lost, doubled = sum(own.lost for own in measured), sum(own.doubled for own in measured)
    cells = [
        f"{errors.noise} s, {errors.missed}, {errors.invented}",
        *(format_planted(*own) for own in list_measures(errors, measured)),
        f"{sum(own.at_seam for own in measured)}, {lost}, {doubled}",
        f"{paid.calls / hours:.0f}, {paid.tokens_in / hours / 1e6:.2f} M + {paid.tokens_out / hours / 1e3:.0f} k, "
        f"{(paid.usd or 0.0) / hours:.2f}",
        format_ratio(quote.cost, rest.cost),
        format_ratio(first.cost, paid),
        f"{again.cost.calls} calls",
    ]
    return f"| {' | '.join(cells)} |"


def format_ratio(quoted: Cost, paid: Cost) -> str:
    """Calls and tokens that were quoted, as shares of those that were paid for."""
    tokens = (quoted.tokens_in + quoted.tokens_out) / max(paid.tokens_in + paid.tokens_out, 1)
    return f"{quoted.calls / max(paid.calls, 1):.2f}, {tokens:.2f}"


def measure_episode(episode: ToldEpisode, spans: Sequence[Annotation], noise: float) -> MeasuredEpisode:
    """Compare the boundaries that were found with the log; only events of one name can be the same."""
    found = sorted((own.start_seconds, str(own.value["text"])) for own in spans if own.start_seconds > 0)
    events = [(own.start, own.name) for own in episode.events[1:]]
    reach = 2.0 * noise + 0.5
    pairs = align_times(
        [seconds for seconds, _ in found],
        [seconds for seconds, _ in events],
        lambda row, column: reach if found[row][1] == events[column][1] else -1.0,
    )
    matched, right = {row for row, _ in pairs}, {column for _, column in pairs}
    windows = plan_windows(round(episode.duration * _RATE_HZ) - 1, _RATE_HZ, episode.duration)
    seams = [(later.start, own.stop) for own, later in pairwise(windows)]

    def is_at_seam(seconds: float) -> bool:
        return any(start <= seconds <= stop for start, stop in seams)

    at_seam = [own for own in episode.told if own.event > 0 and is_at_seam(own.seconds)]
    surplus = [row for row in range(len(found)) if row not in matched and is_at_seam(found[row][0])]
    invented_there = sum(own.event < 0 and is_at_seam(own.seconds) for own in episode.told)
    return MeasuredEpisode(
        errors=tuple(found[row][0] - events[column][0] for row, column in pairs),
        events=len(events),
        may_be_missed=sum(may_be_missed(episode.events, at) for at in range(1, len(episode.events))),
        missed=len(events) - len(pairs),
        invented=len(found) - len(pairs),
        minutes=episode.duration / 60,
        at_seam=len(at_seam),
        lost=sum(own.event - 1 not in right for own in at_seam),
        doubled=max(0, len(surplus) - invented_there),
    )


Measure = Callable[[Sequence[MeasuredEpisode]], float]


def list_measures(
    errors: PlantedErrors, measured: Sequence[MeasuredEpisode]
) -> list[tuple[float, float, tuple[float, float]]]:
    """Of noise, missed and invented: what was planted, what was measured, and its 95 % interval by drawing episodes."""
    share = sum(own.may_be_missed for own in measured) / max(sum(own.events for own in measured), 1)
    measures: list[tuple[float, Measure]] = [
        (errors.noise, _noise), (errors.missed * share, _missed), (errors.invented, _invented)
    ]  # fmt: skip
    rng = np.random.default_rng(0)
    draws = [[measured[at] for at in rng.integers(0, len(measured), len(measured))] for _ in range(_DRAWS)]
    rows = []
    for planted, measure in measures:
        low, high = np.quantile([measure(draw) for draw in draws], [0.025, 0.975])
        rows.append((planted, measure(measured), (float(low), float(high))))
    return rows


def _noise(measured: Sequence[MeasuredEpisode]) -> float:
    errors = np.concatenate([own.errors for own in measured])
    return float(np.sqrt((errors**2).mean())) if len(errors) else 0.0


def _missed(measured: Sequence[MeasuredEpisode]) -> float:
    return sum(own.missed for own in measured) / max(sum(own.events for own in measured), 1)


def _invented(measured: Sequence[MeasuredEpisode]) -> float:
    return sum(own.invented for own in measured) / max(sum(own.minutes for own in measured), 1e-9)


def format_planted(planted: float, measured: float, interval: tuple[float, float]) -> str:
    """What was measured with its interval, and whether what was planted lies in it."""
    is_inside = interval[0] - 1e-9 <= planted <= interval[1] + 1e-9
    verb = "holds" if is_inside else "without"
    return f"{measured:.3f} ({interval[0]:.3f} to {interval[1]:.3f}) {verb} {planted:.3f}"


if __name__ == "__main__":
    main()
