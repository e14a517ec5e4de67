"""Pixels are in memory while they are read and encoded, and not while a server works on a call."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ares.errors import MediaError
from ares.settings import Settings
from ares.workspace import Workspace
from ares_annotators.base import Frames, Options
from ares_annotators.models import ReadableImages
from tests.annotators.caption_replies import typed_caption
from tests.annotators.judge_replies import judge, kind_of
from tests.annotators.runs import annotate


class Pixels:
    """All pixels that a run has decoded or read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.decodings = 0
        self._arrays: list[weakref.ref[Any]] = []
        decode, at = Frames.decode, Frames.at

        def watched_decode(frames: Frames) -> None:
            decode(frames)
            self.decodings += 1
            for images in frames._decoded.values():
                assert not isinstance(images, MediaError)
                self._arrays += map(weakref.ref, images.values())

        def watched_at(frames: Frames, *arguments: Any) -> Any:
            images = at(frames, *arguments)
            self._arrays.append(weakref.ref(images))
            return images

        monkeypatch.setattr(Frames, "decode", watched_decode)
        monkeypatch.setattr(Frames, "at", watched_at)

    def in_memory(self) -> int:
        """Arrays that are still in memory; most are released without a collection, which takes long."""
        if self._count():
            gc.collect()
        return self._count()

    def _count(self) -> int:
        return sum(array() is not None for array in self._arrays)


@pytest.fixture
def frozen_objects() -> Iterator[None]:
    """Keep the objects of earlier tests out of the collections, which take a second each late in a run of all tests."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.nightly
@pytest.mark.usefixtures("frozen_objects")
def test_a_call_in_flight_holds_no_pixels_unless_a_later_annotator_reads_them(
    video_ws: Workspace, model_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pixels = Pixels(monkeypatch)
    in_flight: dict[str, set[int]] = {"caption": set(), "grade": set()}

    def reply(request: dict[str, Any]) -> str:
        is_grade = kind_of(request) != "caption"
        if pixels.decodings:  # else it is the test call
            in_flight["grade" if is_grade else "caption"].add(pixels.in_memory())
        if not is_grade:
            return typed_caption("open the drawer", action="open")
        (choice,) = judge(compares="different")(request)
        return str(choice["message"]["content"])

    model_server.answers(reply)
    settings = Settings(
        caption_model=f"openai:Some/Captioner-7B@{model_server.url}",
        judge_model=f"openai:Other/Judge-9B@{model_server.url}",
    )
    options = Options(settings=settings, values={"caption.layout": "tiles", "grade.layout": "tiles"})
    reports = annotate(video_ws.stores, ["caption", "grade"], options, quiet=True, limit=1)
    assert [(report.kept, report.failed) for report in reports] == [(1, 0), (1, 0)]
    # The judge reads the three frames of the captioner; they are decoded again for each round of slots that it contests
    # in controls, of which there are at most as many as slots.
    assert in_flight == {"caption": {3}, "grade": {0}}
    assert 1 < pixels.decodings <= 1 + 9
    assert pixels.in_memory() == 0


def test_images_that_were_released_are_read_again() -> None:
    files = [np.full((4, 6, 3), value, np.uint8) for value in (10, 20)]
    released: list[bool] = []
    images = ReadableImages(lambda: list(files), lambda: released.append(True))
    images.release()
    files[0] = files[0] + 1
    assert (len(images), images.shapes, released) == (2, ((4, 6, 3), (4, 6, 3)), [True])
    assert [int(image[0, 0, 0]) for image in images] == [11, 20]


def test_images_that_cannot_be_read_again_say_why() -> None:
    frames = iter([[np.zeros((4, 6, 3), np.uint8)]])

    def read() -> Any:
        for images in frames:
            return images
        raise MediaError("file is gone", "a.mp4")

    images = ReadableImages(read)
    images.release()
    with pytest.raises(MediaError, match="file is gone"):
        list(images)
