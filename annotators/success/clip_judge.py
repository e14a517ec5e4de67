"""CLIP as a judge of success: texts of both outcomes against the last frames, and progress over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from ares.annotation import Cost, short_hash
from ares.errors import AresError, MediaError
from ares.rubric import shipped_phrases
from ares_annotators.base import CameraSeconds, Preflight, Subject
from ares_annotators.caption import compute_even_seconds
from ares_annotators.success.combination import TASK_RECOGNISED, Attempt, OutcomeParts, choose_judged_cameras

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Camera, Json
    from ares_annotators.models import NamedEncoder


_FEWEST_VALUES = 3


def compute_value_order_correlation(values: Sequence[float] | NDArray[np.float64]) -> float | None:
    """Rank correlation of values with their order in time, the value-order correlation of GVL (arXiv 2411.04549).

    Args:
        values: (N,) values of frames in order of time.

    Returns:
        From -1 (falling) to 1 (rising); None for fewer than three values, or where all are equal.
    """
    import numpy as np

    ranks = compute_mean_ranks(np.asarray(values, np.float64))
    if len(ranks) < _FEWEST_VALUES or np.ptp(ranks) == 0:
        return None
    return float(np.corrcoef(ranks, np.arange(len(ranks)))[0, 1])


def compute_mean_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(N,) ranks from 0 of N values; equal values share the mean of their ranks."""
    import numpy as np

    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: NDArray[np.float64] = (last - (counts + 1) / 2)[inverse]
    return ranks


_DONE = ("the robot has managed to {}", "done: {}", "success: {}")
_NOT_DONE = ("the robot has failed to {}", "not done: {}", "failure: {}")
_TASK = ("{}", "a robot arm trying to {}", "video of a robot told to {}")
_LAST_FRAMES, _PROGRESS_FRAMES = 10, 16
# Frames of each camera that are stored as evidence.
_EVIDENCE_FRAMES = 2
_BATCH_SIZE = 8


@dataclass(frozen=True, slots=True, eq=False)
class _CameraVectors:
    """Vectors of frames of one camera: (N, D) over the episode, (M, D) at its end, and the seconds of the latter."""

    name: str
    progress: NDArray[np.float32]
    last: NDArray[np.float32]
    last_seconds: Sequence[float]


class ClipOutcomeJudge:
    """Fills the protocol `ares_annotators.success.combination.OutcomeJudge` with CLIP; it stores nothing and is free.

    Args:
        encoder: The model.
        camera: Camera name, or "" for every good one.
    """

    batch_size = _BATCH_SIZE
    workers = 1
    call_limit = None
    warnings: Sequence[str] = ()
    prompt_hash = short_hash([*_DONE, *_NOT_DONE, *_TASK, *shipped_phrases()])

    def __init__(self, encoder: NamedEncoder, camera: str) -> None:
        self._encoder, self._camera = encoder, camera
        self.name = self.family = f"clip:{encoder.name}"
        self.settings: dict[str, Json] = {"last_frames": _LAST_FRAMES, "progress_frames": _PROGRESS_FRAMES}
        self._encode_task = lru_cache(maxsize=10_000)(self._outcome_vectors)

    def select_frames(self, subject: Subject) -> CameraSeconds:
        """Frames over the episode and its last ones, of every camera that is judged."""
        return {
            camera.name: sorted({*progress, *last})
            for camera, progress, last in self._camera_seconds(subject)
        }

    def preflight(self) -> Preflight:
        """Nothing: its encoder was loaded, and costs nothing."""
        return Preflight()

    def estimate(self, subject: Subject) -> Cost:
        """A cost of nothing but time."""
        return Cost()

    def judge(self, attempts: Sequence[Attempt]) -> Sequence[OutcomeParts | AresError]:
        """Parts of every attempt, by one pass of the model over the frames of all."""
        import numpy as np

        frames = [self._read_frames(attempt) for attempt in attempts]
        readable = [camera for cameras in frames if not isinstance(cameras, AresError) for camera in cameras]
        images = [image for _, progress, last, _ in readable for image in (*progress, *last)]
        vectors = self._encoder.encode_images(images) if images else np.zeros((0, 0), np.float32)
        results: list[OutcomeParts | AresError] = []
        start = 0
        for attempt, cameras in zip(attempts, frames, strict=True):
            if isinstance(cameras, AresError):
                results.append(cameras)
                continue
            encoded = []
            for name, progress, last, seconds in cameras:
                middle, stop = start + len(progress), start + len(progress) + len(last)
                encoded.append(_CameraVectors(name, vectors[start:middle], vectors[middle:stop], seconds))
                start = stop
            results.append(self._measure(attempt.task, encoded))
        return results

    def _camera_seconds(self, subject: Subject) -> list[tuple[Camera, list[float], list[float]]]:
        return [
            (
                camera,
                compute_even_seconds(camera, _PROGRESS_FRAMES, subject=subject),
                compute_even_seconds(camera, _LAST_FRAMES, last_frames=_LAST_FRAMES, subject=subject),
            )
            for camera in choose_judged_cameras(subject, self._camera)
        ]

    def _read_frames(
        self, attempt: Attempt
    ) -> list[tuple[str, NDArray[np.uint8], NDArray[np.uint8], Sequence[float]]] | MediaError:
        """Name, images over the episode, images at its end, and their seconds, of each camera."""
        frames = attempt.work.frames
        cameras = self._camera_seconds(attempt.work.subject)
        if not cameras:
            return MediaError("episode has no such camera", f"{self._camera or 'any'!r}")
        try:
            return [
                (camera.name, frames.at(camera.name, progress), frames.at(camera.name, last), last)
                for camera, progress, last in cameras
            ]
        except MediaError as error:
            return error

    def _measure(self, task: str, cameras: Sequence[_CameraVectors]) -> OutcomeParts:
        import numpy as np

        done, not_done = self._encode_task(task)
        margins = [camera.last @ (done - not_done) for camera in cameras]
        values = [(camera.progress @ (done - not_done)).astype(np.float64) for camera in cameras]
        orders = [order for value in values if (order := compute_value_order_correlation(value)) is not None]
        progress = np.mean([camera.progress.mean(axis=0) for camera in cameras], axis=0)
        parts = {
            TASK_RECOGNISED: float(
                (self._other_tasks @ progress < self._encode_texts(_TASK, task) @ progress).mean()
            ),
            "outcome_text": float(np.mean([margin.mean() for margin in margins])),
            "outcome_text_lowest": float(min(margin.mean() for margin in margins)),
            "progress_gain": float(np.mean([value[-1] - value[0] for value in values])),
        }
        if orders:
            parts["progress_order"] = float(np.mean(orders))
        sign = 1.0 if parts["outcome_text"] >= 0 else -1.0
        evidence = [
            (camera.name, camera.last_seconds[index])
            for camera, margin in zip(cameras, margins, strict=True)
            for index in sorted(np.argsort(-sign * margin, kind="stable")[:_EVIDENCE_FRAMES].tolist())
        ]
        return OutcomeParts(parts=parts, evidence=evidence)

    @cached_property
    def _other_tasks(self) -> NDArray[np.float32]:
        """(N, D) unit vectors of tasks that no episode is likely to be of."""
        import numpy as np

        return np.stack([self._encode_texts(_TASK, phrase) for phrase in shipped_phrases()])

    def _outcome_vectors(self, task: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return self._encode_texts(_DONE, task), self._encode_texts(_NOT_DONE, task)

    def _encode_texts(self, templates: Sequence[str], task: str) -> NDArray[np.float32]:
        """(D,) unit vector of a task, the mean over the templates."""
        import numpy as np

        vector = self._encoder.encode_texts([text.replace("{}", task) for text in templates]).mean(axis=0)
        unit: NDArray[np.float32] = vector / max(float(np.linalg.norm(vector)), 1e-12)
        return unit
