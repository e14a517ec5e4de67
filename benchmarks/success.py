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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from ares.episode import Camera, Episode, MediaRef, Record, Role, Signal, Trajectory, make_episode_id
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from ares_annotators.success import Combination, load_success_combination
from benchmarks.shares import format_share

KINDS = ("noisy", "stop", "drop")
_NAMES = ("x", "y", "z", "gripper")
_VIEWS: tuple[Role, ...] = ("front", "wrist")
_SIGNALS = ("end_speed", "end_effort", "action_jumps")
_DISTANCE = "signal_distance"
_FOLDS = 5
_FITTED_FOR = "clip:reference-clip-"
# Of the verdicts on the threshold part at least this share must be right, with both outcomes weighted the same.
_PRECISION = 0.95
_RESAMPLES = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """Parts of an episode with its outcome, and its task: episodes of one task are never divided."""

    parts: Mapping[str, float]
    success: bool
    group: str


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
        fitted = fit_combination([episode.example for episode in episodes])
        print_areas([(kind, score_folds(episodes, kind)) for kind in KINDS])
    else:
        development = read_part(args, "development")
        print_areas([(kind, score_apart(development, episodes, kind)) for kind in KINDS])
        fitted = load_success_combination(args.read)
        if args.part == "threshold":
            fitted = fit_verdict_thresholds(fitted, [episode.example for episode in episodes])
        print_verdicts(fitted, episodes)
    if args.write:
        Path(args.write).write_text(yaml.safe_dump(fitted.model_dump(mode="json"), sort_keys=False))


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


def fit_combination(examples: Sequence[Example]) -> Combination:
    """Weights by logistic regression in which both outcomes count the same; signals by their distance from successes.

    A part that an episode lacks counts as the middle between successes and failures.
    """
    names = sorted({name for example in examples for name in example.parts} - {*_SIGNALS, _DISTANCE})
    empty = Combination(
        id="fitted",
        version="1.0.0",
        fitted_for=_FITTED_FOR,
        typical=_typical_values(examples),
        parts={name: {"weight": 1.0} for name in [*names, _DISTANCE]},  # type: ignore[misc]
        failure_below=0.5,
        success_from=0.5,
    )
    rows = [empty.add_distance(example.parts) for example in examples]
    table = np.array([[row.get(name, np.nan) for name in empty.parts] for row in rows])
    truth = np.array([example.success for example in examples])
    centre = (np.nanmean(table[truth], axis=0) + np.nanmean(table[~truth], axis=0)) / 2
    scaler = StandardScaler().fit(table)
    scaler.mean_ = centre
    design = np.nan_to_num(scaler.transform(table))
    fitted = LogisticRegression(C=1 / 3, class_weight="balanced").fit(design, truth)
    parts = {
        name: {"centre": float(middle), "scale": float(scale), "weight": float(weight)}
        for name, middle, scale, weight in zip(
            empty.parts, centre, scaler.scale_, fitted.coef_[0], strict=True
        )
    }
    document = empty.model_dump(mode="json") | {"intercept": float(fitted.intercept_[0]), "parts": parts}
    return Combination.model_validate(document)


def _typical_values(examples: Sequence[Example]) -> Any:
    """Median and standard deviation of each signal over the successes."""
    typical = {}
    for name in _SIGNALS:
        values = [example.parts[name] for example in examples if example.success and name in example.parts]
        if values:
            typical[name] = {"centre": float(np.median(values)), "scale": float(np.std(values))}
    return typical


def fit_verdict_thresholds(combination: Combination, examples: Sequence[Example]) -> Combination:
    """The combination with the widest verdicts that are right often enough; else nothing is decided."""
    truth = np.array([example.success for example in examples])
    scores = np.array([combination.probability(example.parts) for example in examples])
    success_from = _lowest_precise_score(scores, truth)
    failure_below = min(1 - _lowest_precise_score(1 - scores, ~truth), success_from)
    return combination.model_copy(update={"success_from": success_from, "failure_below": failure_below})


def _lowest_precise_score(scores: Any, truth: Any) -> float:
    precise = [
        score
        for score in np.unique(scores)
        if (right := (scores[truth] >= score).mean())
        >= _PRECISION * (right + (scores[~truth] >= score).mean())
    ]
    return float(min(precise, default=1.0))


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
    if len({*truth}) < 2:
        return "none"
    tasks = np.array([episode.example.group for episode in episodes])
    rows_of = [np.flatnonzero(tasks == task) for task in np.unique(tasks)]
    rng, label, score = np.random.default_rng(0), np.array(truth), np.array(scores)
    areas = []
    for _ in range(_RESAMPLES):
        drawn = np.concatenate([rows_of[index] for index in rng.integers(len(rows_of), size=len(rows_of))])
        if len(np.unique(label[drawn])) == 2:
            areas.append(roc_auc_score(label[drawn], score[drawn]))
    low, high = np.percentile(areas, [2.5, 97.5])
    return f"{roc_auc_score(label, score):.3f} ({low:.3f}-{high:.3f})"


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
