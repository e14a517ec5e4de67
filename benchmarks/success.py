"""Measures `ares annotate success` on simulated episodes whose length does not tell the outcome.

Generate them with the recipe of the reference models, in a folder per part: first successes, then with MATCH failures
that are as long as the success of their task. SEEDS are those of the first line of each part in
`benchmarks/simulated_parts.yaml`. Weights are of the development part and thresholds of the threshold part. The test
part is read last.

.venv/bin/python -m benchmarks.success EPISODES MODELS WORKSPACES --part development --write fitted.yaml
.venv/bin/python -m benchmarks.success EPISODES MODELS WORKSPACES --part threshold --read fitted.yaml --write clip.yaml
.venv/bin/python -m benchmarks.success EPISODES MODELS WORKSPACES --part test
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from annotators.success import (
    Combination,
    Example,
    bootstrap_auc_interval,
    compute_area_under_curve,
    fit_combination,
    fit_verdict_thresholds,
    load_success_combination,
    write_success_combination,
)
from ares.episode import Camera, Episode, MediaRef, Record, Role, Signal, Trajectory, make_episode_id
from ares.settings import Settings
from ares.statistics import format_share
from ares.workspace import Workspace, open_workspace

KINDS = ("noisy", "stop", "drop")
_NAMES = ("x", "y", "z", "gripper")
_VIEWS: tuple[Role, ...] = ("front", "wrist")
_FOLDS = 5
_FITTED_FOR = "clip:reference-clip-"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedEpisode:
    """An episode with what the simulator knows of it.

    Attributes:
        kind: "expert", or the kind of its failure.
        length: Steps.
        example: Parts, outcome and task.
    """

    kind: str
    length: int
    example: Example


def main() -> None:
    """Print the table of a part."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("episodes", type=Path, help="folder with a folder of generated episodes per part")
    parser.add_argument("models", type=Path, help="folder of the reference models")
    parser.add_argument("workspaces", type=Path, help="folder for a workspace per part, which is kept")
    parser.add_argument("--part", choices=("development", "threshold", "test"), required=True)
    parser.add_argument("--read", default="clip", help="combination whose verdicts are printed")
    parser.add_argument("--write", default="", help="file for the combination that this part gives")
    parser.add_argument("--only-annotate", action="store_true", help="annotate, and print no number")
    args = parser.parse_args()
    episodes = read_part(args, args.part)
    if args.only_annotate:
        return
    if args.part == "development":
        fitted = fit_combination([episode.example for episode in episodes], fitted_for=_FITTED_FOR)
        print_areas([(kind, score_folds(episodes, kind)) for kind in KINDS])
    else:
        development = read_part(args, "development")
        print_areas([(kind, score_apart(development, episodes, kind)) for kind in KINDS])
        fitted = load_success_combination(args.read)
        if args.part == "threshold":
            fitted = fit_verdict_thresholds(fitted, [episode.example for episode in episodes])
        print_verdicts(fitted, episodes)
    if args.write:
        write_success_combination(fitted, args.write)


def read_part(args: argparse.Namespace, part: str) -> list[SimulatedEpisode]:
    """The episodes of a part with their parts; those that are not annotated yet are."""
    rows = [
        json.loads(line)
        for path in sorted((args.episodes / part).glob("meta_*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    # A policy that does not reach the goal is no failure of a known kind, and runs longer than all others.
    rows = [row for row in rows if row["success"] or row["mode"] != "expert"]
    clip = f"local-dir:{args.models / 'reference-clip'}"
    settings = Settings(
        embed_model=clip,
        caption_model=f"hf:{args.models / 'reference-captioner'}",
        judge_model=f"clip:{clip}",
    )
    with open_workspace(str(args.workspaces / part), settings) as workspace:
        records = [make_record(args.episodes / part, row) for row in rows]
        workspace.stores.tables.episodes.add(records)
        workspace.annotate("caption")
        (report,) = workspace.annotate("success", options={"combination": "clip"})
        return list(read_examples(workspace, rows, records, report.producer))


def make_record(folder: Path, row: dict[str, Any]) -> Record:
    """An episode of the recipe: state and actions from its arrays, frames where they lie."""
    import numpy as np

    arrays = np.load(folder / f"{row['id']}.npz")
    count = row["length"]
    episode_id = make_episode_id(format="npz", dataset="simulated", version="", split="", key=row["id"])
    episode = Episode(
        episode_id=episode_id,
        format="npz",
        dataset="simulated",
        version="",
        split="",
        key=row["id"],
        source=str(folder / f"{row['id']}.npz"),
        content_hash=episode_id,
        instruction=row["instruction"],
        instructions=(row["instruction"],),
        robot="sawyer",
        num_steps=count,
        rate_hz=float(row["fps"]),
        rate_source="source",
        cameras=tuple(_camera(folder, row, view) for view in _VIEWS),
        state_names=_NAMES,
        action_names=_NAMES,
    )
    trajectory = Trajectory(
        timestamps=np.arange(count) / row["fps"],
        state=Signal(arrays["state"], _NAMES),
        action=Signal(arrays["action"], _NAMES),
    )
    return Record(episode=episode, trajectory=trajectory)


def _camera(folder: Path, row: dict[str, Any], view: Role) -> Camera:
    media = MediaRef(
        kind="mp4",
        uri=str(folder / f"{row['id']}_{view}.mp4"),
        start_seconds=0.0,
        stop_seconds=row["length"] / row["fps"],
        num_frames=row["length"],
        rate_hz=float(row["fps"]),
    )
    return Camera(name=view, role=view, width=192, height=192, codec="h264", media=media)


def read_examples(
    workspace: Workspace, rows: Sequence[dict[str, Any]], records: Sequence[Record], maker_id: str
) -> Iterator[SimulatedEpisode]:
    """Episodes of the recipe with the parts of their stored success by a producer."""
    ids = [record.episode.episode_id for record in records]
    annotations = workspace.stores.annotations.find_annotations(ids, maker_ids=[maker_id])
    values = {annotation.episode_id: dict(annotation.value) for annotation in annotations}
    for row, episode_id in zip(rows, ids, strict=True):
        parts: Any = values[episode_id]["parts"]
        # The distance belongs to the combination, and is measured again by each.
        parts = {name: part for name, part in parts.items() if name != "signal_distance"}
        example = Example(parts=parts, success=row["success"], group=row["task"])
        yield SimulatedEpisode(kind=row["mode"], length=row["length"], example=example)


def score_folds(episodes: Sequence[SimulatedEpisode], kind: str) -> list[tuple[SimulatedEpisode, float]]:
    """Probabilities by combinations that saw neither the kind of failure nor the task of an episode."""
    tasks = sorted({episode.example.group for episode in episodes})
    folds = [set(tasks[first::_FOLDS]) for first in range(_FOLDS)]
    scored = []
    for fold in folds:
        rest = [episode for episode in episodes if episode.example.group not in fold]
        scored += score_apart(rest, [e for e in episodes if e.example.group in fold], kind)
    return scored


def score_apart(
    fitted_to: Sequence[SimulatedEpisode], episodes: Sequence[SimulatedEpisode], kind: str
) -> list[tuple[SimulatedEpisode, float]]:
    """Probabilities of successes and of one kind of failure, by a combination that saw no failure of that kind."""
    combination = fit_combination([episode.example for episode in fitted_to if episode.kind != kind])
    return [
        (episode, combination.probability(episode.example.parts))
        for episode in episodes
        if episode.kind in ("expert", kind)
    ]


def print_areas(rows: Sequence[tuple[str, list[tuple[SimulatedEpisode, float]]]]) -> None:
    """A row per kind of failure that the weights did not see, and one over all three."""
    print(
        "| failures, unseen by the weights | episodes | AUROC | CLIP texts alone | caption alone | length alone |"
    )
    print("|---|---|---|---|---|---|")
    pooled = [pair for _, pairs in rows for pair in pairs]
    for kind, pairs in [*rows, ("all three", pooled)]:
        judged = [episode for episode, _ in pairs]
        columns = [
            [score for _, score in pairs],
            [episode.example.parts["outcome_text"] for episode in judged],
            [episode.example.parts.get("caption_outcome", 0.0) for episode in judged],
            [-float(episode.length) for episode in judged],
        ]
        print(
            f"| {kind} | {len(judged)} | "
            + " | ".join(area_text(judged, scores) for scores in columns)
            + " |"
        )


def area_text(episodes: Sequence[SimulatedEpisode], scores: Sequence[float]) -> str:
    """The area under the curve with its interval by clusters of tasks."""
    truth = [episode.example.success for episode in episodes]
    area = compute_area_under_curve(scores, truth)
    interval = bootstrap_auc_interval(scores, truth, [episode.example.group for episode in episodes])
    if area is None or interval is None:
        return "none"
    return f"{area:.3f} ({interval[0]:.3f}-{interval[1]:.3f})"


def print_verdicts(combination: Combination, episodes: Sequence[SimulatedEpisode]) -> None:
    """A row per kind of episode: how many have which verdict."""
    print(f"\nsuccess from {combination.success_from}, failure below {combination.failure_below}\n")
    print("| episodes | verdict success | verdict failure | unsure |")
    print("|---|---|---|---|")
    for kind in ("expert", *KINDS):
        verdicts = [combination.verdict(e.example.parts) for e in episodes if e.kind == kind]
        cells = [
            format_share(verdicts.count(name), len(verdicts)) for name in ("success", "failure", "unsure")
        ]
        print(f"| {'successes' if kind == 'expert' else kind} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
