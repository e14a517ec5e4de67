"""Episodes that no source has, annotations that no annotator has made, and choices that no model has written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ares.annotation import Annotation, Producer
from ares.episode import Camera, Episode, MediaRef, Role


def make_camera(
    role: Role, seconds: float, rate_hz: float, uri: str = "none.mp4", height: int = 192, width: int = 192
) -> Camera:
    """A camera whose video is so long."""
    media = MediaRef(
        kind="mp4",
        uri=uri,
        start_seconds=0.0,
        stop_seconds=seconds,
        num_frames=round(seconds * rate_hz),
        rate_hz=rate_hz,
    )
    return Camera(name=str(role), role=role, width=width, height=height, codec="h264", media=media)


def make_episode(key: str, cameras: Sequence[Camera], success: bool | None = None) -> Episode:
    """An episode as long as its first video, whose instruction no model may get to know."""
    media = cameras[0].media
    return Episode(
        episode_id=f"{key:_<16}"[:16],
        format="video",
        dataset="demo",
        version="",
        split="",
        key=key,
        source="",
        content_hash=key,
        instruction="do what is written nowhere else",
        instructions=("do what is written nowhere else",),
        robot="sawyer",
        num_steps=media.num_frames,
        rate_hz=media.rate_hz,
        rate_source="source",
        cameras=tuple(cameras),
        success=success,
    )


def make_annotation(
    producer: Producer,
    episode: Episode,
    value: Any,
    span: tuple[float, float] | None = None,
    **fields: Any,
) -> Annotation:
    """An annotation of an episode, of all of it where no span is given."""
    start, stop = span or (0.0, episode.duration_seconds)
    made: dict[str, Any] = {
        "episode_id": episode.episode_id,
        "name": producer.annotator,
        "maker_id": producer.maker_id,
        "subject": episode.episode_id,
        "created": "2026-01-01T00:00:00+00:00",
    }
    return Annotation(value=value, start_seconds=start, stop_seconds=stop, **{**made, **fields})


def choice(text: str, index: int = 0) -> dict[str, Any]:
    """A reply as servers send it."""
    return {"index": index, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
