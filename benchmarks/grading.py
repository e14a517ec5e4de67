"""Measures the demo's judge of a simulation on episodes that chose nothing, and chooses its margin on others.

Generate the episodes with the recipe of the reference models, a folder per part, with the seeds of
`simulated_parts.yaml`: first the successes, then with MATCH failures that are as long as the success of their task.
Captions are true where they state the task and its outcome exactly; the simulator's
outcome is recorded. Intervals are by task (Korn and Graubard, 95 %).

.venv/bin/python -m benchmarks.grading EPISODES MODELS WORKSPACE --part threshold
.venv/bin/python -m benchmarks.grading EPISODES MODELS WORKSPACE --part test
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from ares.episode import Camera, Episode, MediaRef, Record, Role, Signal, Trajectory, make_episode_id
from ares.rubric import normalize_caption
from ares.settings import Settings
from ares.statistics import wilson_interval
from ares.workspace import Workspace, open_workspace
from ares_annotators.base import Frames, Options, Work, make_episode_subject
from ares_annotators.grade import ClipJudge, GradeAnnotator
from ares_app.demo import GRADE_OPTIONS
from benchmarks.clustered_counts import effective_items

_PARTS = Path(__file__).with_name("simulated_parts.yaml")
# Between these, length does not tell the outcome; below the other, too few attempts fail.
LENGTH_AREA = (0.45, 0.55)
LEAST_FAILURES = 0.5
_AXES = ("x", "y", "z", "gripper")
_VIEWS: tuple[Role, ...] = ("front", "wrist")
_MARGINS = (0.0, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.06)
_COLUMNS = ["episode_id", "key", "instruction", "caption", "grade", "grade_content"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedCaption:
    """A caption with its grade.

    Attributes:
        task: Task of the episode; captions of one are a cluster.
        names_task: Whether it names the task.
        is_true: Whether it names the task, and states the outcome that the simulator says.
        grade: Its grade.
        content: The verdict on CONTENT.
        lead: Cosine by which it leads the next phrase; None for no candidate phrase.
    """

    task: str
    names_task: bool
    is_true: bool
    grade: str
    content: str
    lead: float | None


def main() -> None:
    """Print the numbers of a part."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("episodes", type=Path, help="folder of generated episodes")
    parser.add_argument("models", type=Path, help="folder of the reference models")
    parser.add_argument("workspace", type=Path, help="workspace, which is kept")
    parser.add_argument("--part", choices=("threshold", "test"), required=True)
    args = parser.parse_args()
    rows = read_rows(args.episodes, args.part)
    print(f"part: {args.part}; {check_rows(rows)}")
    clip = f"local-dir:{args.models / 'reference-clip'}"
    captioner = f"hf:{args.models / 'reference-captioner'}"
    settings = Settings(embed_model=clip, caption_model=captioner, judge_model=f"clip:{clip}")
    with open_workspace(str(args.workspace), settings) as workspace:
        workspace.stores.tables.episodes.add([make_record(args.episodes, row) for row in rows])
        for name in ("caption", "grade"):
            workspace.annotate(name, options={"grade": GRADE_OPTIONS} if name == "grade" else {})
        options = Options(settings=settings, values=GRADE_OPTIONS)
        judge = GradeAnnotator(options, workspace.stores).grader.judge
        assert isinstance(judge, ClipJudge)
        captions = judge_captions(workspace, judge, {row["id"]: bool(row["success"]) for row in rows})
    print(f"{judge.name}: cameras front and wrist, {judge.settings}\n")
    if args.part == "threshold":
        print_margins(captions)
    print_shares(captions)


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
        success=bool(row["success"]),
        success_source="simulator",
        robot="sawyer",
        num_steps=count,
        rate_hz=float(row["fps"]),
        rate_source="source",
        cameras=tuple(_camera(folder, row, view) for view in _VIEWS),
        state_names=_AXES,
        action_names=_AXES,
    )
    trajectory = Trajectory(
        timestamps=np.arange(count) / row["fps"],
        state=Signal(arrays["state"], _AXES),
        action=Signal(arrays["action"], _AXES),
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


def judge_captions(workspace: Workspace, judge: ClipJudge, succeeded: dict[str, bool]) -> list[JudgedCaption]:
    """Every caption of a workspace with its grade; `succeeded` is the simulator's word by key of the episode."""
    stores = workspace.stores
    rows = stores.tables.episodes.read_columns(_COLUMNS).to_pylist()
    captions = []
    for row in rows:
        slots = normalize_caption(row["caption"])
        names_task = slots.phrase == normalize_caption(row["instruction"]).phrase
        truth = "success" if succeeded[row["key"]] else "failure"
        captions.append(
            JudgedCaption(
                task=row["key"].rsplit("_", 1)[0],
                names_task=names_task,
                is_true=names_task and slots.outcome == truth,
                grade=row["grade"],
                content=row["grade_content"],
                lead=_measure_lead(workspace, judge, row["episode_id"], slots.phrase),
            )
        )
    return captions


def _measure_lead(workspace: Workspace, judge: ClipJudge, episode_id: str, phrase: str) -> float | None:
    subject = make_episode_subject(workspace.stores.tables.episodes.get_episode(episode_id))
    frames = Frames(subject.episode, [judge.select_frames(subject)])
    frames.decode()
    similarities = judge.fit_phrases(Work(subject=subject, frames=frames, trajectory=None))
    if isinstance(similarities, Exception):
        raise similarities
    return judge.lead(phrase, similarities)


def print_margins(captions: Sequence[JudgedCaption]) -> None:
    """What each margin would make of CONTENT; the least that is right in 0.95 both ways is chosen."""
    for margin in _MARGINS:
        met = [caption for caption in captions if caption.lead is not None and caption.lead >= margin]
        unmet = [caption for caption in captions if caption.lead is not None and caption.lead <= -margin]
        print(
            f"margin {margin}: MET names the task {_share([c.names_task for c in met], met)}; "
            f"UNMET does not {_share([not c.names_task for c in unmet], unmet)}; "
            f"decided {_share([c in met or c in unmet for c in captions], captions)}"
        )


def print_shares(captions: Sequence[JudgedCaption]) -> None:
    """Precision and coverage of the grades, and what CONTENT is worth without the recorded success."""
    accepted = [caption for caption in captions if caption.grade == "acceptable"]
    refused = [caption for caption in captions if caption.grade == "not_acceptable"]
    met = [caption for caption in captions if caption.content == "MET"]
    for name, hits, items in (
        ("captions that are true", [c.is_true for c in captions], captions),
        ("accepted that are true (precision)", [c.is_true for c in accepted], accepted),
        ("accepted of all (coverage)", [c.grade == "acceptable" for c in captions], captions),
        ("refused that are false", [not c.is_true for c in refused], refused),
        ("CONTENT MET that name the task", [c.names_task for c in met], met),
    ):
        print(f"{name}: {_share(hits, items)}")


def _share(hits: Sequence[bool], captions: Sequence[JudgedCaption]) -> str:
    tasks = sorted({caption.task for caption in captions})
    own = [
        [hit for hit, caption in zip(hits, captions, strict=True) if caption.task == task] for task in tasks
    ]
    if not hits:
        return "none"
    effective = effective_items([sum(members) for members in own], [len(members) for members in own], 0.0)
    share = sum(hits) / len(hits)
    low, high = wilson_interval(share * effective, effective)
    return f"{sum(hits)}/{len(hits)} = {share:.3f} ({low:.3f}-{high:.3f})"


def read_seeds() -> dict[int, str]:
    """The part of each seed. Raises ValueError where one is in two parts."""
    import yaml

    parts: dict[int, str] = {}
    for part, rounds in yaml.safe_load(_PARTS.read_text()).items():
        for entry in rounds:
            for seed in [*entry["successes"], *entry["failures"]]:
                if seed in parts:
                    raise ValueError(f"seed {seed} is entered twice in {_PARTS.name}")
                parts[seed] = part
    return parts


def read_rows(folder: Path, part: str) -> list[dict[str, Any]]:
    """The episodes of a folder with what the simulator says of them.

    A policy that does not reach the goal is no failure of a known kind and is left out, and so are the failures of its
    task, which have no length to be cut to.

    Args:
        folder: Folder with `meta_*.jsonl` of the recipe.
        part: The part that they have to belong to.

    Raises:
        ValueError: There is no episode, or the seed of one is not of that part.
    """
    rows = [
        json.loads(line)
        for path in sorted(folder.glob("meta_*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    seeds = read_seeds()
    strangers = sorted({seed for row in rows if seeds.get(seed := _seed_of(row)) != part})
    if strangers or not rows:
        raise ValueError(f"{folder} is no folder of the {part} part: seeds {strangers or 'none'}")
    done = {row["task"] for row in rows if row["mode"] == "expert" and row["success"]}
    return [row for row in rows if row["task"] in done and (row["success"] or row["mode"] != "expert")]


def _seed_of(row: dict[str, Any]) -> int:
    """The seed of an episode of the recipe, whose id is its task and its seed."""
    return int(row["id"].rsplit("_", 1)[1])


def check_rows(rows: list[dict[str, Any]]) -> str:
    """What a reader should know of the episodes, as a line.

    Raises:
        ValueError: Too few of them fail, or length alone tells the outcome.
    """
    outcomes = [bool(row["success"]) for row in rows]
    failures = outcomes.count(False)
    line = f"{len(rows)} episodes of {len({row['task'] for row in rows})} tasks, {failures} failed"
    if failures < LEAST_FAILURES * len(rows) or failures == len(rows):
        raise ValueError(f"{line}: too few failures for a test of outcomes")
    area = roc_auc_score(outcomes, [-float(row["length"]) for row in rows])
    line += f"; length alone has an AUROC of {area:.3f}"
    if not LENGTH_AREA[0] <= area <= LENGTH_AREA[1]:
        raise ValueError(f"{line}, which tells the outcome")
    return line


if __name__ == "__main__":
    main()
