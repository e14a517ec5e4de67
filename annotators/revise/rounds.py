"""One round of a revision: refused captions asked again, judged before and after on hidden criteria."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from annotators.base import (
    MAX_REPEATED_FAILURES,
    CameraSeconds,
    Frames,
    Outcome,
    Result,
    Work,
    find_outcome_cost,
    make_annotation_subject,
    make_episode_subject,
)
from annotators.caption import choose_camera
from annotators.prompting import apply_in_batches
from annotators.revise.new_captions import (
    Proposer,
    RefusedCaption,
    find_failed_criteria,
    make_adopted_caption,
    propose_captions,
    read_evidence_frames,
)
from ares.annotation import Annotation, Cost, Producer, short_hash
from ares.clock import needs_timestamps
from ares.console import count_of
from ares.errors import NotTried, RequestError, ServerError
from ares.rubric import GATES
from ares.statistics import compare_paired
from ares.store import batched, keep_newest_annotations

if TYPE_CHECKING:
    from annotators.caption import Captioner
    from annotators.grade import GradeAnnotator
    from ares.rubric import Rubric
    from ares.statistics import PairedDifference
    from ares.store import Stores


# The annotator of the grades by a second judge: they fill no column.
ANCHOR_GRADE = "anchor_grade"
_LEVEL = 0.05
_NOT_FAILED = frozenset({"MET", "NA"})


def choose_hidden_criteria(rubric: Rubric, share: float, seed: int) -> list[str]:
    """The gates of a rubric, ruled on by its judge, that no critique names: a share of them.

    At least one is hidden, and at least one can be told of; of a single gate none is hidden.

    Args:
        rubric: The rubric.
        share: Share of them, 0 to 1.
        seed: Of the choice.
    """
    judged = [item.id for item in rubric.criteria if item.category in GATES and (item.slot or item.claim)]
    count = min(max(1, round(share * len(judged))), len(judged) - 1)
    selected = set(sorted(judged, key=lambda name: short_hash([seed, name]))[:count])
    return [name for name in judged if name in selected]


def meets_all_criteria(verdicts: Mapping[str, str], criteria: Collection[str]) -> bool:
    """Whether a caption meets some criteria, as far as they apply to it; UNSURE and ERROR do not count as met."""
    return all(verdicts.get(name) in _NOT_FAILED for name in criteria)


def is_improvement_shown(change: PairedDifference) -> bool:
    """Whether an improvement is shown, by the interval over episodes and by McNemar's exact test."""
    return change.low > 0 and change.p_value < _LEVEL


def make_second_judge_producer(judge: Producer) -> Producer:
    """The producer of a second judge's grades, which are shown nowhere."""
    return replace(judge, annotator=ANCHOR_GRADE, columns=(), after=())


def as_second_judge_annotation(annotation: Annotation, judge: Producer) -> Annotation:
    """An annotation of the second judge under the producer of anchors; an observation stays what it is."""
    if annotation.maker_id != judge.maker_id:
        return annotation
    name = ANCHOR_GRADE if annotation.name == judge.annotator else annotation.name
    return replace(annotation, name=name, maker_id=make_second_judge_producer(judge).maker_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionJudge:
    """A judge of captions before and after.

    Attributes:
        annotator: The annotator `grade` with its judge.
        is_anchor: Whether it is the second judge, of which no captioner is told.
    """

    annotator: GradeAnnotator
    is_anchor: bool = False

    @property
    def producer(self) -> Producer:
        """Producer of its grades."""
        return (
            make_second_judge_producer(self.annotator.producer) if self.is_anchor else self.annotator.producer
        )

    @property
    def name(self) -> str:
        """Name of its grades in the log."""
        return ANCHOR_GRADE if self.is_anchor else self.annotator.producer.annotator

    def stored(self, outcome: Result) -> list[Annotation]:
        """The annotations of a grading as they are stored."""
        new = outcome.annotations
        return (
            [as_second_judge_annotation(item, self.annotator.producer) for item in new]
            if self.is_anchor
            else list(new)
        )


@dataclass(slots=True)
class Spent:
    """What a run has paid, and why work failed.

    Attributes:
        cost: What was paid.
        failures: Number of failures by reason; work that the budget did not pay for has not failed.
        failed_calls: How many outcomes in a row a server has failed.
        server: Why a server was given up, or "".
    """

    cost: Cost = field(default_factory=Cost)
    failures: dict[str, int] = field(default_factory=dict)
    failed_calls: int = 0
    server: str = ""

    def add(self, outcome: Outcome) -> None:
        """Count an outcome."""
        self.cost = self.cost + find_outcome_cost(outcome)
        error = getattr(outcome, "error", outcome)
        self.failed_calls = self.failed_calls + 1 if isinstance(error, ServerError) else 0
        if self.failed_calls >= MAX_REPEATED_FAILURES:
            failures = count_of(self.failed_calls, "failure")
            self.server = f"the server is given up after {failures} in a row, the last: {error}"
        if not isinstance(outcome, Result) and not isinstance(error, NotTried):
            reason = str(getattr(error, "reason", error))
            self.failures[reason] = self.failures.get(reason, 0) + 1


def grade_captions(
    stores: Stores,
    judge: RevisionJudge,
    captions: Sequence[Annotation],
    known: Mapping[str, Annotation],
    work_of: Callable[[Annotation], Work],
    spent: Spent,
) -> dict[str, Annotation]:
    """The grades of captions by annotation_id of the caption; one that could not be graded is left out.

    Args:
        stores: Stores of the workspace; new grades are appended to its log.
        judge: The judge.
        captions: The captions, which need not be stored.
        known: Its grades so far, by annotation_id of the caption.
        work_of: The work about a caption, with frames and signals.
        spent: Gets what was paid.
    """
    missing = [caption for caption in captions if caption.annotation_id not in known]
    works = [work_of(caption) for caption in missing]
    annotator = judge.annotator
    outcomes = apply_in_batches(annotator.process, works, annotator.batch_size, annotator.workers)
    grades = {
        caption.annotation_id: known[caption.annotation_id] for caption in captions if caption not in missing
    }
    for outcome in outcomes:
        spent.add(outcome)
        if isinstance(outcome, Result):
            stored = judge.stored(outcome)
            stores.annotations.append(stored)
            grades |= {item.subject: item for item in stored if item.name == judge.name}
    return grades


# Episodes whose frames are held at the same time.
EPISODES_AT_ONCE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedCaption:
    """A caption with its grade.

    Attributes:
        caption: The caption.
        grade: Its grade by the judge whose critique is told.
    """

    caption: Annotation
    grade: Annotation

    @property
    def verdicts(self) -> dict[str, str]:
        """Verdict by criterion."""
        rulings = self.grade.value["rulings"]
        assert isinstance(rulings, list)
        return {str(item["criterion"]): str(item["verdict"]) for item in rulings if isinstance(item, dict)}

    @property
    def is_accepted(self) -> bool:
        """Whether the judge accepts it, with every veto."""
        return is_accepted(self.grade)


def is_accepted(grade: Annotation) -> bool:
    """Whether a grade is "acceptable"; no decision is not."""
    return grade.value["acceptable"] is True


def read_graded_captions(
    stores: Stores, captioner: Producer, judge: Producer, where: str, limit: int | None
) -> Iterator[GradedCaption]:
    """The captions of a producer of whole episodes that a judge has graded, by episode.

    Raises RequestError for a wrong filter.
    """
    count = 0
    for ids in stores.tables.episodes.id_batches(where):
        read = stores.annotations.find_annotations(ids, maker_ids=[captioner.maker_id, judge.maker_id])
        newest = keep_newest_annotations(read)
        grades = {item.subject: item for item in newest if item.name == judge.annotator}
        for caption in newest:
            if caption.maker_id == captioner.maker_id and caption.annotation_id in grades:
                if limit is not None and count >= limit:
                    return
                count += 1
                yield GradedCaption(caption=caption, grade=grades[caption.annotation_id])


def find_captioner(stores: Stores, text: str) -> Producer:
    """The producer of the captions to revise. Raises RequestError where it is not given and not the only one."""
    producers = {
        key: producer
        for key, producer in stores.annotations.producers().items()
        if producer.annotator == "caption"
        and producer.kind == "model"
        and not producer.settings.keys() & {"revises", "repeats"}
    }
    matches = [producer for key, producer in producers.items() if key.startswith(text)]
    if len(matches) == 1:
        return matches[0]
    known = "; ".join(f"{key} ({producer.model})" for key, producer in producers.items()) or "none"
    raise RequestError(
        f"no single producer of captions {text!r}" if text else "captions of one producer are revised",
        f"there are: {known}; give --captions",
    )


class EpisodeWorks:
    """The works about some episodes, whose frames are decoded when the first is needed.

    Args:
        stores: Stores of the workspace.
        captioner: Gets frames of each episode.
        judges: Annotators that get frames and signals.
        evidence: Further frames by episode.
    """

    def __init__(
        self,
        stores: Stores,
        captioner: Captioner,
        judges: Sequence[GradeAnnotator],
        evidence: Mapping[str, CameraSeconds],
    ) -> None:
        self._stores, self._captioner, self._judges, self._evidence = stores, captioner, judges, evidence
        self._works: dict[str, Work] = {}

    def of_episode(self, episode_id: str) -> Work:
        """The work about an episode."""
        if not self._works:
            self._works = dict(self._load())
        return self._works[episode_id]

    def of_caption(self, caption: Annotation) -> Work:
        """The work about a caption."""
        work = self.of_episode(caption.episode_id)
        return replace(work, subject=make_annotation_subject(work.episode, caption))

    def _load(self) -> Iterator[tuple[str, Work]]:
        episode_ids = sorted(self._evidence)
        signals = dict(self._stores.tables.trajectories.read(episode_ids))
        for episode in self._stores.tables.episodes.get(episode_ids):
            subject = make_episode_subject(episode)
            requests = [judge.select_frames(subject) for judge in self._judges]
            requests.append(self._captioner.select_frames(subject))
            trajectory = signals.get(episode.episode_id)
            stamps = trajectory.timestamps if trajectory and needs_timestamps(episode) else None
            frames = Frames(episode, [*requests, self._evidence[episode.episode_id]], stamps)
            frames.decode()
            yield episode.episode_id, Work(subject=subject, frames=frames, trajectory=trajectory)


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


def _evidence_cameras(job: RevisionJob, refused: Sequence[GradedCaption]) -> dict[str, str]:
    """By episode the camera that shows what its caption fails by: the best one where the judge had several."""
    episodes = job.stores.tables.episodes.get([item.caption.episode_id for item in refused])
    best = {episode.episode_id: choose_camera(episode, "") for episode in episodes}
    cameras = {key: camera.name if camera else "" for key, camera in best.items()}
    graded_cameras = {item.caption.episode_id: item.grade.camera for item in refused}
    return {key: camera or cameras.get(key, "") for key, camera in graded_cameras.items()}


def _revise_batch(
    job: RevisionJob, proposer: Proposer, refused: Sequence[GradedCaption], number: int
) -> list[Revised]:
    log = _read_log(job, proposer, refused)
    criteria = {
        item.caption.annotation_id: find_failed_criteria(item.grade, job.rubric, job.hidden)
        for item in refused
    }
    cameras = _evidence_cameras(job, refused)
    evidence = {
        key: read_evidence_frames(criteria[item.caption.annotation_id], cameras[key])
        for item in refused
        if (key := item.caption.episode_id)
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
            camera=cameras[item.caption.episode_id],
        )
        for item in missing
    ]
    for item, outcome in zip(missing, propose_captions(proposer, requests, number), strict=True):
        job.spent.add(outcome)
        if isinstance(outcome, Result):
            job.stores.annotations.append(list(outcome.annotations))
            proposals[item.caption.annotation_id] = outcome.annotations[0]
    return _judge_proposals(job, proposer, captions, proposals, log, works)


def _read_log(job: RevisionJob, proposer: Proposer, refused: Sequence[GradedCaption]) -> list[Annotation]:
    producers = [proposer.proposal_producer, *(judge.producer for judge in job.judges)]
    ids = sorted({item.caption.episode_id for item in refused})
    return job.stores.annotations.find_annotations(
        ids, maker_ids=[producer.maker_id for producer in producers]
    )


def _known_proposals(
    log: Iterable[Annotation], proposer: Proposer, captions: dict[str, GradedCaption], number: int
) -> dict[str, Annotation]:
    """The proposals of this round that an earlier run has got, by id of the caption."""
    maker_id = proposer.proposal_producer.maker_id
    proposals = [item for item in log if item.maker_id == maker_id and item.revision == number]
    return {str(item.value["revises"]): item for item in proposals if item.value["revises"] in captions}


def _judge_proposals(
    job: RevisionJob,
    proposer: Proposer,
    captions: dict[str, GradedCaption],
    proposals: dict[str, Annotation],
    log: Sequence[Annotation],
    works: EpisodeWorks,
) -> list[Revised]:
    """Judge the proposals; words that did not change keep the grade that they have."""
    after = {key: make_adopted_caption(proposer, proposal) for key, proposal in proposals.items()}
    changed = {
        key: caption
        for key, caption in after.items()
        if _caption_text(caption) != _caption_text(captions[key].caption)
    }
    before = {key: captions[key].caption for key in proposals}
    grades: list[dict[str, Annotation]] = []
    for judge in job.judges:
        stored = [
            item for item in log if item.maker_id == judge.producer.maker_id and item.name == judge.name
        ]
        known = {item.subject: item for item in keep_newest_annotations(stored)}
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


def _caption_text(caption: Annotation) -> str:
    return str(caption.value["text"])


def _second_verdicts(grades: Sequence[dict[str, Annotation]], key: str, new: str) -> tuple[bool, bool] | None:
    return (is_accepted(grades[1][key]), is_accepted(grades[1][new])) if len(grades) > 1 else None


def compare_acceptance(revised: Sequence[Revised], seed: int) -> PairedDifference | None:
    """How much more often the judge accepts captions after than before."""
    pairs = [(item.before.is_accepted, item.after.is_accepted) for item in revised]
    return _compare_pairs(revised, pairs, seed)


def compare_hidden_criteria(
    revised: Sequence[Revised], hidden: Sequence[str], seed: int
) -> PairedDifference | None:
    """How much more often captions meet all hidden criteria after than before."""
    pairs = [
        (meets_all_criteria(item.before.verdicts, hidden), meets_all_criteria(item.after.verdicts, hidden))
        for item in revised
    ]
    return _compare_pairs(revised, pairs, seed)


def compare_second_judge(revised: Sequence[Revised], seed: int) -> PairedDifference | None:
    """How much more often the second judge accepts captions after than before; None without one."""
    pairs = [item.is_accepted_by_second for item in revised if item.is_accepted_by_second]
    return _compare_pairs(revised, pairs, seed) if pairs else None


def _compare_pairs(
    revised: Sequence[Revised], pairs: Sequence[tuple[bool, bool]], seed: int
) -> PairedDifference | None:
    if not pairs:
        return None
    clusters = [item.before.caption.episode_id for item in revised]
    return compare_paired([pair[0] for pair in pairs], [pair[1] for pair in pairs], clusters, seed)
