"""Run the demo: both samples through the whole job with the reference models, and what came of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.episode import Json

if TYPE_CHECKING:
    from ares.settings import Settings
    from ares.workspace import Workspace

HERE = Path(__file__).parent
# The RLDS sample was recorded at this rate; RLDS does not store it.
RLDS_RATE_HZ = 10.0
ANNOTATORS = ("motion", "embed", "caption", "grade")
LABEL = (
    "simulation: reference models that know only these simulated tasks, judged against the simulator's truth"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoReport:
    """What came of the demo.

    Attributes:
        workspace: Folder of the workspace, for `ares app -w`.
        episodes: Episodes ingested.
        captions: Captions made.
        acceptable: Captions that passed the rubric; so for not_acceptable, unsure and errors.
        rejected_by: Number of captions that each criterion rejected.
        unsure_by: Number of captions that each criterion left unsure.
        exported_episodes: Episodes in the exported set.
        export_path: Folder of the export.
        caption_truth_agreement: Share of captions that equal the simulator's truth (task and outcome).
        grade_truth_agreement: Share of decided grades that agree with whether the caption is true.
        grade_decided: Share of captions that were decided either way; the others are unsure or errors.
        failed: Items that failed anywhere.
        seconds: Wall time.
        label: That these are numbers of a simulation.
    """

    workspace: str
    episodes: int
    captions: int
    acceptable: int
    not_acceptable: int
    unsure: int
    errors: int
    rejected_by: dict[str, int]
    unsure_by: dict[str, int]
    exported_episodes: int
    export_path: str
    caption_truth_agreement: float | None
    grade_truth_agreement: float | None
    grade_decided: float | None
    failed: int
    seconds: float
    label: str = LABEL

    def to_json(self) -> dict[str, Json]:
        """The document of `ares demo --json`."""
        return asdict(self)


def fresh_folder(parent: Path) -> Path:
    """A folder for one run of the demo that is not there yet."""
    return parent / "ares-demo" / datetime.now().strftime("%Y-%m-%dT%H-%M-%S")


def demo_settings(settings: Settings) -> Settings:
    """The settings with the reference models in place of real ones."""
    clip = f"local-dir:{HERE / 'models' / 'reference-clip'}"
    captioner = f"hf:{HERE / 'models' / 'reference-captioner'}"
    return replace(settings, embed_model=clip, caption_model=captioner, judge_model=f"clip:{clip}")


def run_demo(ws: Workspace, say: Callable[[str], None]) -> DemoReport:
    """Ingest, annotate, freeze and export the samples.

    Args:
        ws: An empty workspace, opened with `demo_settings`.
        say: Told each step as it starts.
    """
    started = time.monotonic()
    failed = _ingest(ws, say) + _annotate(ws, say)
    say("freeze: the set 'accepted' of every episode whose caption is acceptable")
    path, exported = _export(ws, say)
    rows = ws.frame(["episode_id", "instruction", "success", "caption", "acceptable", "grade"]).to_pylist()
    grades = Counter(row["grade"] for row in rows)
    captioned = [row for row in rows if row["caption"] is not None]
    decided = [row for row in captioned if row["acceptable"] is not None]
    return DemoReport(
        workspace=ws.path,
        episodes=len(rows),
        captions=len(captioned),
        acceptable=grades["acceptable"],
        not_acceptable=grades["not_acceptable"],
        unsure=grades["unsure"],
        errors=grades["error"],
        rejected_by=_decided_by(ws, "not_acceptable", "UNMET"),
        unsure_by=_decided_by(ws, "unsure", "UNSURE"),
        exported_episodes=exported,
        export_path=path,
        caption_truth_agreement=_share([_is_true(row) for row in captioned]),
        grade_truth_agreement=_share([row["acceptable"] == _is_true(row) for row in decided]),
        grade_decided=_share([row["acceptable"] is not None for row in captioned]),
        failed=failed,
        seconds=round(time.monotonic() - started, 1),
    )


def _ingest(ws: Workspace, say: Callable[[str], None]) -> int:
    from ingest.base import Options
    from ingest.load import load

    say("ingest: 12 episodes of RLDS and 12 of raw video, by reference")
    samples = HERE / "samples"
    rlds = load(ws, [str(samples / "rlds")], Options(rate_hz=RLDS_RATE_HZ), quiet=True)
    video = load(ws, [str(samples / "video")], Options(dataset="metaworld_video"), quiet=True)
    return rlds.report.failed + video.report.failed


def _annotate(ws: Workspace, say: Callable[[str], None]) -> int:
    from annotators.base import Options
    from annotators.run import annotate

    say(f"annotate: {', '.join(ANNOTATORS)}")
    documents = annotate(ws, ANNOTATORS, Options(settings=ws.settings), quiet=True)
    return sum(int(str(document["failed"])) for document in documents)


def _export(ws: Workspace, say: Callable[[str], None]) -> tuple[str, int]:
    from ares.curate.choose import choose
    from ares.registry import exporters

    ids, recipe = choose(ws, where="acceptable")
    chosen = ws.sets.create("accepted", ids, recipe)
    dest = ws.folder / "exports" / f"accepted-{chosen.version}"
    number = 1
    while dest.exists():
        number += 1
        dest = ws.folder / "exports" / f"accepted-{chosen.version}-{number}"
    say(f"export: LeRobot v3.0 to {dest}")
    report: Any = exporters.get("lerobot")(ws, chosen, dest, lambda episodes: None)
    return str(dest), int(report.episodes)


def _decided_by(ws: Workspace, grade: str, verdict: str) -> dict[str, int]:
    """How often each criterion had a verdict among the captions with a grade."""
    found: Counter[str] = Counter()
    for fact in ws.annotations.about(sorted(ws.tables.episodes.ids()), ["grade"]):
        rulings: Any = fact.value["rulings"]
        if fact.value["grade"] == grade:
            found.update(ruling["criterion"] for ruling in rulings if ruling["verdict"] == verdict)
    return dict(found.most_common())


def _is_true(row: dict[str, Any]) -> bool:
    """Whether a caption says what the simulator did: the instruction, with "fail to" where it failed."""
    truth = row["instruction"] if row["success"] else f"fail to {row['instruction']}"
    return bool(row["caption"] == truth)


def _share(answers: list[bool]) -> float | None:
    return round(sum(answers) / len(answers), 4) if answers else None
