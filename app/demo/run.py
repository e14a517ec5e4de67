"""Runs the demo: ingests, annotates, freezes and exports both samples, and reports the outcome."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.episode import Json
from ares.errors import RequestError
from ares.review import NO_PERSON

if TYPE_CHECKING:
    from ares.export import ExportReport
    from ares.settings import Settings
    from ares.store import Stores
    from ares.workspace import Workspace


DEMO_FOLDER = Path(__file__).resolve().parent
# The RLDS sample was recorded at this rate; RLDS does not store it.
RLDS_RATE_HZ = 10.0
# Grades read the captions that are stored, so each of these is a separate run.
RUNS = (("motion", "embed", "caption"), ("grade",))
GRADE_OPTIONS = {"rubric": "simulation", "candidates": str(DEMO_FOLDER / "candidates.txt")}
# The captioner writes sentences alone, of a list whose slots are known.
CAPTION_OPTIONS = {"phrases": str(DEMO_FOLDER / "phrases.yaml")}
# A caption is true also where it says that the robot fails; `success` is that the episode succeeded.
ACCEPTED = "acceptable AND success"
# Who answers whether a caption is true: the simulator's truth stands for people.
ANSWERED_BY = f"simulation {NO_PERSON}"
LABEL = (
    "simulation: reference models that know only these simulated tasks, judged against the simulator's truth by the "
    "demo judge of a simulation"
)
# The demo's episodes are few and were seen during development: what the judge is worth is read elsewhere.
TEST_NOTE = (
    "(demo judge of a simulation) on 242 simulated episodes that chose nothing, read once, with two cameras and 50 "
    "phrases: 196 of 196 captions whose CONTENT is MET name the task (95 % interval 0.927 to 1.000, by task); outcomes "
    "are those of the sources; see benchmarks/RESULTS.md"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoReport:
    """Outcome of the demo.

    Attributes:
        workspace: Folder of the workspace, for `ares app -w`.
        episodes: Episodes ingested.
        captions: Captions written.
        acceptable: Captions that passed the rubric; so for not_acceptable, unsure and errors.
        successes: Acceptable captions of episodes that succeeded; these episodes are the set.
        failures: Acceptable captions of episodes that failed.
        rejected_by: Number of captions that each criterion rejected.
        unsure_by: Number of captions that each criterion left unsure.
        exported_episodes: Episodes in the exported set.
        export_path: Folder of the export.
        task_source: What was to be the task of the exported episodes, see `ExportReport`.
        task_sources: Number of exported episodes by what their task is.
        caption_truth_agreement: Share of captions that equal the simulator's truth (task and outcome).
        grade_truth_agreement: Share of decided grades that agree with whether the caption is true.
        grade_decided: Share of captions that were decided either way; the others are unsure or errors.
        judge_tripwire: By dataset, what the controls of the judge say, see `ares.rubric.read_tripwires`.
        measured: By dataset, what share of its accepted captions is true, by the simulator's truth.
        failed: Items that failed anywhere.
        seconds: Wall time.
        label: Says that these are numbers of a simulation.
    """

    workspace: str
    episodes: int
    captions: int
    acceptable: int
    not_acceptable: int
    unsure: int
    errors: int
    successes: int
    failures: int
    rejected_by: dict[str, int]
    unsure_by: dict[str, int]
    exported_episodes: int
    export_path: str
    task_source: str
    task_sources: dict[str, int]
    caption_truth_agreement: float | None
    grade_truth_agreement: float | None
    grade_decided: float | None
    judge_tripwire: Mapping[str, Json]
    measured: Mapping[str, str]
    failed: int
    seconds: float
    label: str = LABEL

    def to_json(self) -> dict[str, Json]:
        """The document of `ares demo --json`."""
        return asdict(self)


def make_demo_folder_path(parent: Path) -> Path:
    """Return the path of a new folder for one run of the demo."""
    return parent / "ares-demo" / datetime.now().strftime("%Y-%m-%dT%H-%M-%S")


def make_demo_settings(settings: Settings) -> Settings:
    """Return the settings with the reference models in place of real ones.

    Raises:
        RequestError: The samples and the reference models, which only a clone of the repository has, are missing.
    """
    if not all((DEMO_FOLDER / name).is_dir() for name in ("models", "samples")):
        raise RequestError(
            "the demo's samples and reference models are not installed",
            "clone the repository of ARES and run `make demo` there",
        )
    clip = f"local-dir:{DEMO_FOLDER / 'models' / 'reference-clip'}"
    captioner = f"hf:{DEMO_FOLDER / 'models' / 'reference-captioner'}"
    return replace(settings, embed_model=clip, caption_model=captioner, judge_model=f"clip:{clip}")


def run_demo_job(workspace: Workspace, report_step: Callable[[str], None]) -> DemoReport:
    """Ingest, annotate, freeze and export the samples.

    Args:
        workspace: An empty workspace, opened with `make_demo_settings`.
        report_step: Called with a line of text when a step starts.
    """
    started = time.monotonic()
    failed = _ingest_samples(workspace, report_step) + _annotate_episodes(workspace, report_step)
    measured = _measure_captions(workspace, report_step)
    report_step(f"freeze: the set 'accepted' where {ACCEPTED}")
    export = _export_accepted(workspace, report_step)
    columns = ["episode_id", "instruction", "success", "caption", "grade"]
    rows = workspace.episodes.to_arrow(columns).to_pylist()
    grades = Counter(row["grade"] for row in rows)
    captioned = [row for row in rows if row["caption"] is not None]
    decided = [row for row in captioned if row["grade"] in ("acceptable", "not_acceptable")]
    outcomes = Counter(row["success"] for row in captioned if row["grade"] == "acceptable")
    return DemoReport(
        workspace=workspace.path,
        episodes=len(rows),
        captions=len(captioned),
        acceptable=grades["acceptable"],
        not_acceptable=grades["not_acceptable"],
        unsure=grades["unsure"],
        errors=grades["error"],
        successes=outcomes[True],
        failures=outcomes[False],
        rejected_by=_criterion_counts(workspace.stores, "not_acceptable", "UNMET"),
        unsure_by=_criterion_counts(workspace.stores, "unsure", "UNSURE"),
        exported_episodes=export.episodes,
        export_path=str(export.path),
        task_source=export.task_source,
        task_sources=dict(export.task_sources),
        caption_truth_agreement=_true_fraction([_is_true(row) for row in captioned]),
        grade_truth_agreement=_true_fraction(
            [(row["grade"] == "acceptable") == _is_true(row) for row in decided]
        ),
        grade_decided=_true_fraction([row in decided for row in captioned]),
        judge_tripwire=workspace.status().judge_tripwire,
        measured=measured,
        failed=failed,
        seconds=round(time.monotonic() - started, 1),
    )


def _ingest_samples(workspace: Workspace, report_step: Callable[[str], None]) -> int:
    report_step("ingest: 12 episodes of RLDS and 12 of raw video, by reference")
    samples = DEMO_FOLDER / "samples"
    rlds = workspace.ingest(samples / "rlds", rate_hz=RLDS_RATE_HZ, quiet=True)
    video = workspace.ingest(samples / "video", dataset="metaworld_video", quiet=True)
    return rlds.failed + video.failed


def _annotate_episodes(workspace: Workspace, report_step: Callable[[str], None]) -> int:
    failed = 0
    for names in RUNS:
        report_step(f"annotate: {', '.join(names)}")
        known = {"caption": CAPTION_OPTIONS, "grade": GRADE_OPTIONS}
        options = {name: known[name] for name in names if name in known}
        failed += sum(report.failed for report in workspace.annotate(*names, options=options, quiet=True))
    return failed


def _measure_captions(workspace: Workspace, report_step: Callable[[str], None]) -> dict[str, str]:
    """Let the simulator's truth answer what `ares review measure` asks people; what it shows, by dataset."""
    measured = {}
    for dataset in sorted({*workspace.episodes.to_arrow(["dataset"])["dataset"].to_pylist()}):
        report_step(f"measure: which accepted captions of {dataset} are true, answered by the {ANSWERED_BY}")
        measurement = workspace.review.measure(dataset, person=ANSWERED_BY)
        while item := measurement.next():
            columns = ["instruction", "success", "caption"]
            (row,) = (
                workspace.episodes.where(f"episode_id = '{item.episode_id}'").to_arrow(columns).to_pylist()
            )
            measurement.clips(item)
            measurement.answer(item, "met" if _is_true(row) else "unmet")
        measured[dataset] = str(measurement.share)
    workspace.sync()
    return measured


def _export_accepted(workspace: Workspace, report_step: Callable[[str], None]) -> ExportReport:
    accepted = workspace.sets.create("accepted", where=ACCEPTED)
    exports = workspace.stores.folder / "exports"
    dest, number = exports / f"accepted-{accepted.version}", 1
    while dest.exists():
        number += 1
        dest = exports / f"accepted-{accepted.version}-{number}"
    report_step(f"export: LeRobot v3.0 to {dest}")
    return workspace.export(accepted, dest, format="lerobot", quiet=True)


def _criterion_counts(stores: Stores, grade: str, verdict: str) -> dict[str, int]:
    """Count, for each criterion, its rulings of a verdict among the captions of a grade."""
    counts: Counter[str] = Counter()
    episode_ids = sorted(stores.tables.episodes.ids())
    for annotation in stores.annotations.find_annotations(episode_ids, ["grade"]):
        rulings: Any = annotation.value["rulings"]
        if annotation.value["grade"] == grade:
            counts.update(ruling["criterion"] for ruling in rulings if ruling["verdict"] == verdict)
    return dict(counts.most_common())


def _is_true(row: dict[str, Any]) -> bool:
    """Whether a caption states the simulator's truth: the instruction, with "fail to" after a failure."""
    truth = row["instruction"] if row["success"] else f"fail to {row['instruction']}"
    return bool(row["caption"] == truth)


def _true_fraction(flags: list[bool]) -> float | None:
    return round(sum(flags) / len(flags), 4) if flags else None
