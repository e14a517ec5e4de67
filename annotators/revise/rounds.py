"""One round of a revision: refused captions are asked again, and judged before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from annotators.base import Result
from annotators.revise.anchors import meets_all
from annotators.revise.critique import failed_criteria
from annotators.revise.episodes import EPISODES_AT_ONCE, EpisodeWorks, GradedCaption, is_accepted
from annotators.revise.judging import RevisionJudge, Spent, grade_captions
from annotators.revise.proposals import Proposer, RefusedCaption, adopted, evidence_frames, propose
from ares.statistics import compare_paired
from ares.store.filters import batched
from ares.store.sync import newest_by_address

if TYPE_CHECKING:
    from ares.annotation import Annotation
    from ares.rubric import Rubric
    from ares.statistics import PairedDifference
    from ares.store import Stores


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionJob:
    """What the rounds of a revision share.

    Attributes:
        stores: Stores of the workspace.
        rubric: The rubric.
        hidden: Criteria of which the captioner is not told.
        judge: The judge whose critique is told.
        second: The second judge, of which nothing is told; or None.
        spent: What was paid.
        is_stopped: Whether the budget is spent.
    """

    stores: Stores
    rubric: Rubric
    hidden: Sequence[str]
    judge: RevisionJudge
    second: RevisionJudge | None
    spent: Spent
    is_stopped: Callable[[], bool]

    @property
    def judges(self) -> list[RevisionJudge]:
        """The judges."""
        return [self.judge, *([self.second] if self.second else [])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Revised:
    """A caption before and after.

    Attributes:
        before: The refused caption.
        after: The revised one; not stored as a caption unless it is adopted.
        is_accepted_by_second: Whether the second judge accepts each of both; None without one.
    """

    before: GradedCaption
    after: GradedCaption
    is_accepted_by_second: tuple[bool, bool] | None

    @property
    def is_changed(self) -> bool:
        """Whether the words are others."""
        return self.before.caption.value["text"] != self.after.caption.value["text"]


def revise_captions(
    job: RevisionJob,
    proposer: Proposer,
    refused: Sequence[GradedCaption],
    number: int,
    advance: Callable[[int], None],
) -> list[Revised]:
    """Ask for refused captions again, and judge what comes; a caption of which something failed is left out.

    What the log has of an earlier, interrupted run is used as it is. Ends early where the budget is spent.

    Args:
        job: The revision.
        proposer: The captioner.
        refused: The captions.
        number: Number of the round.
        advance: Called with the number of captions that were done.
    """
    revised: list[Revised] = []
    for batch in batched(refused, EPISODES_AT_ONCE):
        if job.is_stopped():
            break
        revised += _revise_batch(job, proposer, list(batch), number)
        advance(len(batch))
    return revised


def _revise_batch(
    job: RevisionJob, proposer: Proposer, refused: Sequence[GradedCaption], number: int
) -> list[Revised]:
    log = _read_log(job, proposer, refused)
    criteria = {
        item.caption.annotation_id: failed_criteria(item.grade, job.rubric, job.hidden) for item in refused
    }
    evidence = {
        item.caption.episode_id: evidence_frames(criteria[item.caption.annotation_id], item.grade.camera)
        for item in refused
    }
    works = EpisodeWorks(job.stores, proposer.captioner, [judge.annotator for judge in job.judges], evidence)
    captions = {item.caption.annotation_id: item for item in refused}
    proposals = _known_proposals(log, proposer, captions, number)
    missing = [item for key, item in captions.items() if key not in proposals]
    requests = [
        RefusedCaption(
            work=works.of_episode(item.caption.episode_id),
            caption=item.caption,
            criteria=criteria[item.caption.annotation_id],
            camera=item.grade.camera,
        )
        for item in missing
    ]
    for item, outcome in zip(missing, propose(proposer, requests, number), strict=True):
        job.spent.add(outcome)
        if isinstance(outcome, Result):
            job.stores.annotations.append(list(outcome.annotations))
            proposals[item.caption.annotation_id] = outcome.annotations[0]
    return _judge(job, proposer, captions, proposals, log, works)


def _read_log(job: RevisionJob, proposer: Proposer, refused: Sequence[GradedCaption]) -> list[Annotation]:
    makers = [proposer.proposal_maker, *(judge.maker for judge in job.judges)]
    ids = sorted({item.caption.episode_id for item in refused})
    return job.stores.annotations.find_annotations(ids, maker_ids=[maker.maker_id for maker in makers])


def _known_proposals(
    log: Iterable[Annotation], proposer: Proposer, captions: dict[str, GradedCaption], number: int
) -> dict[str, Annotation]:
    """The proposals of this round that an earlier run has got, by id of the caption."""
    maker_id = proposer.proposal_maker.maker_id
    own = [item for item in log if item.maker_id == maker_id and item.revision == number]
    return {str(item.value["revises"]): item for item in own if item.value["revises"] in captions}


def _judge(
    job: RevisionJob,
    proposer: Proposer,
    captions: dict[str, GradedCaption],
    proposals: dict[str, Annotation],
    log: Sequence[Annotation],
    works: EpisodeWorks,
) -> list[Revised]:
    """Judge the proposals; words that did not change keep the grade that they have."""
    after = {key: adopted(proposer, proposal) for key, proposal in proposals.items()}
    changed = {
        key: caption for key, caption in after.items() if _text(caption) != _text(captions[key].caption)
    }
    before = {key: captions[key].caption for key in proposals}
    grades: list[dict[str, Annotation]] = []
    for judge in job.judges:
        own = [item for item in log if item.maker_id == judge.maker.maker_id and item.name == judge.name]
        known = {item.subject: item for item in newest_by_address(own)}
        known |= {} if judge.is_anchor else {key: item.grade for key, item in captions.items()}
        captions_to_grade = [*(before.values() if judge.is_anchor else ()), *changed.values()]
        new = grade_captions(job.stores, judge, captions_to_grade, known, works.of_caption, job.spent)
        grades.append({**known, **new})
    pairs = [(key, key if key not in changed else after[key].annotation_id) for key in proposals]
    return [
        Revised(
            before=captions[key],
            after=GradedCaption(caption=after[key], grade=grades[0][new]),
            is_accepted_by_second=_second_verdicts(grades, key, new),
        )
        for key, new in pairs
        if all(key in known and new in known for known in grades)
    ]


def _text(caption: Annotation) -> str:
    return str(caption.value["text"])


def _second_verdicts(grades: Sequence[dict[str, Annotation]], key: str, new: str) -> tuple[bool, bool] | None:
    return (is_accepted(grades[1][key]), is_accepted(grades[1][new])) if len(grades) > 1 else None


def compare_acceptance(revised: Sequence[Revised], seed: int) -> PairedDifference | None:
    """How much more often the judge accepts captions after than before."""
    pairs = [(item.before.is_accepted, item.after.is_accepted) for item in revised]
    return _compare(revised, pairs, seed)


def compare_anchors(revised: Sequence[Revised], hidden: Sequence[str], seed: int) -> PairedDifference | None:
    """How much more often captions meet all hidden criteria after than before."""
    pairs = [
        (meets_all(item.before.verdicts, hidden), meets_all(item.after.verdicts, hidden)) for item in revised
    ]
    return _compare(revised, pairs, seed)


def compare_second_judge(revised: Sequence[Revised], seed: int) -> PairedDifference | None:
    """How much more often the second judge accepts captions after than before; None without one."""
    pairs = [item.is_accepted_by_second for item in revised if item.is_accepted_by_second]
    return _compare(revised, pairs, seed) if pairs else None


def _compare(
    revised: Sequence[Revised], pairs: Sequence[tuple[bool, bool]], seed: int
) -> PairedDifference | None:
    if not pairs:
        return None
    clusters = [item.before.caption.episode_id for item in revised]
    return compare_paired([pair[0] for pair in pairs], [pair[1] for pair in pairs], clusters, seed)
