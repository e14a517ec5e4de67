"""The subjects of an annotator in one episode: the episode itself, or the segments or annotations of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from annotators.base import Result, Subject, annotation_subject, episode_subject
from annotators.frames import Frames
from ares.annotation import Annotation, Maker
from ares.episode import Episode, Trajectory
from ares.errors import AresError, RequestError
from ares.store.sync import MakerCatalog, newest_by_address, read_pins, segment_id, select_shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store import Stores


@dataclass(slots=True)
class EpisodeBundle:
    """An episode on its way through the annotators of a run, with what was read and made for it.

    Attributes:
        episode: The episode.
        frames: Its decoded frames.
        annotations: Its annotations before the run that others of the run describe, in the order of the log.
        trajectory: Its signals, or None when no annotator needs them.
        stamps: (T,) stamps of its steps, where only they tell which frame belongs to a second; else None.
        results: Results so far, by annotator name.
        done_subjects: Subjects of it that were done before the run, by annotator name.
        selection_errors: Why frames could not be selected, by annotator name and id of the subject.
    """

    episode: Episode
    frames: Frames
    annotations: Sequence[Annotation] = ()
    trajectory: Trajectory | None = None
    stamps: NDArray[np.float64] | None = None
    results: dict[str, list[Result]] = field(default_factory=dict)
    done_subjects: dict[str, set[str]] = field(default_factory=dict)
    selection_errors: dict[tuple[str, str], AresError] = field(default_factory=dict)


class SubjectFinder:
    """Finds the subjects of one annotator.

    Args:
        stores: Stores of the workspace.
        maker: Maker of the annotator.

    Raises:
        RequestError: The annotator describes something that no run can give it.
    """

    def __init__(self, stores: Stores, maker: Maker) -> None:
        if maker.subject_kind == "set" or (maker.subject_kind != "episode" and not maker.after):
            raise RequestError(
                f"{maker.annotator!r} cannot be run over episodes",
                f"it describes {maker.subject_kind}s after {list(maker.after)}; segments and annotations need `after`",
            )
        self._stores, self._maker = stores, maker

    @property
    def after(self) -> Sequence[str]:
        """Names of the annotators whose annotations it needs."""
        return self._maker.after if self._maker.subject_kind != "episode" else ()

    def of_bundle(self, bundle: EpisodeBundle) -> list[Subject]:
        """The subjects in an episode, those that the run has made so far included."""
        if not self.after:
            return [episode_subject(bundle.episode)]
        new = [
            annotation
            for name in self.after
            for result in bundle.results.get(name, ())
            for annotation in result.annotations
        ]
        return self.in_episode(bundle.episode, [*bundle.annotations, *new])

    def in_episode(self, episode: Episode, annotations: Sequence[Annotation]) -> list[Subject]:
        """The subjects among the annotations of an episode, in the order of the log."""
        if not self.after:
            return [episode_subject(episode)]
        if self._maker.subject_kind == "segment":
            segments = {segment_id(annotation): annotation for annotation in self._shown(annotations)}
            return [
                replace(annotation_subject(episode, segment), kind="segment", id=key)
                for key, segment in segments.items()
            ]
        return [
            annotation_subject(episode, annotation)
            for annotation in newest_by_address(annotations)
            if annotation.name in self.after
        ]

    def _shown(self, annotations: Sequence[Annotation]) -> list[Annotation]:
        """The segments that are shown: those of an older segmenter are no subjects any more."""
        shown = select_shown(annotations, self._catalog, self.after)
        return [annotation for name in self.after for annotation in shown[name]]

    @cached_property
    def _catalog(self) -> MakerCatalog:
        # Read at the first episode: by then every annotator of the run has stored its maker.
        return MakerCatalog(self._stores.annotations.makers(), read_pins(self._stores.annotations))
