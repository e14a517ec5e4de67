"""Captions of a captioner with their grades, and what a person would want to know of the two."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from annotators.attack import weakest_belief
from ares.rubric import CONTROL, VERDICTS_COLUMN, Gates, JudgeTrust, judge_controls, parse_caption
from ares.workspace import Workspace

_COLUMNS = ["episode_id", "key", "instruction", "success", "caption", VERDICTS_COLUMN]


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedCaption:
    """A caption with its grade.

    Attributes:
        episode_id: Its episode.
        task: Task of the episode; captions of one are a cluster.
        succeeded: Whether the simulator calls the episode a success.
        is_true: Whether it states the task and the outcome exactly.
        grade: Its grade, by the gates as they stand.
        belief: Least belief of its gates in it, 0 to 1; None where none was measured.
        is_top_phrase: Whether it names the action that the judge observed, on the same menu and before it was read.
        top_outcome_agrees: Whether it also states the outcome that the frames show by themselves.
    """

    episode_id: str
    task: str
    succeeded: bool
    is_true: bool
    grade: str
    belief: float | None
    is_top_phrase: bool
    top_outcome_agrees: bool

    @property
    def is_accepted(self) -> bool:
        """Whether the judge takes it to be true."""
        return self.grade == "acceptable"


def read_controls(workspace: Workspace, maker_id: str) -> tuple[JudgeTrust, list[dict[str, Any]]]:
    """What the controls of a judge say of it, and their values."""
    annotations = workspace.stores.annotations
    episode_ids = list(annotations.find_episodes(CONTROL))
    found = annotations.find_annotations(episode_ids, [CONTROL], maker_ids=[maker_id])
    values = [dict(annotation.value) for annotation in found]
    return judge_controls(values, [annotation.episode_id for annotation in found]), values


def read_captions(workspace: Workspace, maker_id: str, trust: JudgeTrust) -> list[GradedCaption]:
    """Every caption that has a grade by a maker, in a workspace of one judge.

    Raises:
        KeyError: What the judge observed in an episode is not stored.
    """
    gates = Gates({record.gate: record.state for record in trust.gates})
    rows = workspace.stores.tables.episodes.read_columns(_COLUMNS).to_pylist()
    ids = [row["episode_id"] for row in rows]
    log = workspace.stores.annotations
    grades = {
        item.episode_id: item.value for item in log.find_annotations(ids, ["grade"], maker_ids=[maker_id])
    }
    # Observations have makers of their own, since captions and later graders share them.
    seen = {item.episode_id: item.value for item in log.find_annotations(ids, ["observation"])}
    return [
        _graded(row, gates, grades[key], seen[key]) for row in rows if (key := row["episode_id"]) in grades
    ]


def _graded(
    row: Mapping[str, Any], gates: Gates, grade: Mapping[str, Any], seen: Mapping[str, Any]
) -> GradedCaption:
    caption = parse_caption(row["caption"])
    states_success = {"success": True, "failure": False}.get(caption.outcome)
    is_top = caption.phrase == parse_caption(str(seen.get("action", ""))).phrase
    sees_success = float(seen.get("success_belief", 0.5)) >= 0.5
    is_task = caption.phrase == parse_caption(row["instruction"]).phrase
    return GradedCaption(
        episode_id=row["episode_id"],
        task=row["key"].rsplit("_", 1)[0],
        succeeded=row["success"],
        is_true=is_task and states_success == row["success"],
        grade=gates.grade(row[VERDICTS_COLUMN]),
        belief=weakest_belief(grade["rulings"]),
        is_top_phrase=is_top,
        top_outcome_agrees=is_top and states_success == sees_success,
    )


def best_precision(captions: Sequence[GradedCaption], coverage: float) -> tuple[float, float]:
    """The highest precision that a threshold on the weakest belief reaches, chosen with the truth in hand.

    Args:
        captions: The captions.
        coverage: Share of them to accept at least.

    Returns:
        The precision, and the coverage there; (0, 0) without captions.
    """
    best = (0.0, 0.0)
    for threshold in sorted({caption.belief or 0.0 for caption in captions}):
        accepted = [caption for caption in captions if (caption.belief or 0.0) >= threshold]
        share = len(accepted) / len(captions)
        if share >= coverage:
            best = max(best, (count_true(accepted) / len(accepted), share))
    return best


def count_true(captions: Iterable[GradedCaption]) -> int:
    """Number of true captions."""
    return sum(caption.is_true for caption in captions)
