"""Reads the captions that a judge has graded, and the frames and signals of their episodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from annotators.base import Work, annotation_subject, episode_subject
from annotators.frames import CameraSeconds, Frames
from ares.annotation import Annotation
from ares.clock import needs_stamps
from ares.errors import RequestError
from ares.store.sync import newest_by_address

if TYPE_CHECKING:
    from annotators.base import Annotator
    from annotators.caption import Captioner
    from ares.annotation import Maker
    from ares.store import Stores

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
    stores: Stores, captioner: Maker, judge: Maker, where: str, limit: int | None
) -> Iterator[GradedCaption]:
    """The captions of a maker of whole episodes that a judge has graded, by episode.

    Raises RequestError for a wrong filter.
    """
    count = 0
    for ids in stores.tables.episodes.id_batches(where):
        read = stores.annotations.find_annotations(ids, maker_ids=[captioner.maker_id, judge.maker_id])
        newest = newest_by_address(read)
        grades = {item.subject: item for item in newest if item.name == judge.annotator}
        for caption in newest:
            if caption.maker_id == captioner.maker_id and caption.annotation_id in grades:
                if limit is not None and count >= limit:
                    return
                count += 1
                yield GradedCaption(caption=caption, grade=grades[caption.annotation_id])


def find_captioner(stores: Stores, text: str) -> Maker:
    """The maker of the captions to revise. Raises RequestError where it is not given and not the only one."""
    makers = {
        key: maker
        for key, maker in stores.annotations.makers().items()
        if maker.annotator == "caption"
        and maker.kind == "model"
        and not maker.settings.keys() & {"revises", "repeats"}
    }
    matches = [maker for key, maker in makers.items() if key.startswith(text)]
    if len(matches) == 1:
        return matches[0]
    known = "; ".join(f"{key} ({maker.model})" for key, maker in makers.items()) or "none"
    raise RequestError(
        f"no single maker of captions {text!r}" if text else "captions of one maker are revised",
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
        judges: Sequence[Annotator],
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
        return replace(work, subject=annotation_subject(work.episode, caption))

    def _load(self) -> Iterator[tuple[str, Work]]:
        episode_ids = sorted(self._evidence)
        signals = dict(self._stores.tables.trajectories.read(episode_ids))
        for episode in self._stores.tables.episodes.get(episode_ids):
            subject = episode_subject(episode)
            requests = [judge.select_frames(subject) for judge in self._judges]
            requests.append(self._captioner.select_frames(subject))
            trajectory = signals.get(episode.episode_id)
            stamps = trajectory.timestamps if trajectory and needs_stamps(episode) else None
            frames = Frames(episode, [*requests, self._evidence[episode.episode_id]], stamps)
            frames.decode()
            yield episode.episode_id, Work(subject=subject, frames=frames, trajectory=trajectory)
