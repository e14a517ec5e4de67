"""Finds the spans of an episode by a vision-language model, which gets sheets of windows that overlap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from ares.annotation import Cost, Producer, short_hash
from ares.clock import compute_camera_rate_hz
from ares.episode import Camera, Json
from ares.errors import MediaError, ModelError
from ares.store import batched
from ares_annotators.base import PaidFailure, Preflight, Subject, Work
from ares_annotators.caption import (
    CameraView,
    FramePlan,
    choose_camera,
    count_prompt_tokens,
    frame_range,
    frame_second,
)
from ares_annotators.models import (
    UNKNOWN_UNTIL_LOADED,
    ReadableImages,
    Vlm,
    VlmFailure,
    VlmReply,
    VlmRequest,
    estimate_image_tokens,
    grey_frames,
    load_vlm,
    make_test_call,
)
from ares_annotators.prompting import escape_json, read_prompt
from ares_annotators.segment.timeline import (
    ModelArm,
    ReadWindow,
    SpansForm,
    Window,
    read_tolerantly,
    read_window_reply,
    spans_schema,
    stitch_windows,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store import Stores
    from ares_annotators.base import CameraSeconds, Options


_PACKAGE = "ares_annotators.segment"
# Of one call; between two frames; frames that two windows share.
MOST_FRAMES, STEP_SECONDS, SHARED_FRAMES = 60, 0.5, 8
# Contact sheets of so many columns and rows.
_SIDE = 3
MAX_NEW_TOKENS = 2_000
# Requests in hand at a time: an hour of video has more frames than there is memory.
_REQUESTS_AT_ONCE = 4
# Frames that the run decodes for all its annotators at once; those of a longer episode are decoded window by window.
_MOST_SHARED = 4 * MOST_FRAMES
_TEST_FRAMES = 9
# For quotes only: tokens of the reply about a span, and of the time of a frame in a prompt.
_SPAN_TOKENS, _FRAME_TOKENS = 38, 7
_CHANGES_PER_SECOND = 0.25

MODEL_SETTINGS: dict[str, Json] = {
    "most_frames": MOST_FRAMES,
    "step": STEP_SECONDS,
    "shared_frames": SHARED_FRAMES,
    "max_new_tokens": MAX_NEW_TOKENS,
    "temperature": 0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTimeline:
    """What a model saw in an episode.

    Attributes:
        arms: Its changes, for each arm.
        camera: The camera.
        seconds: Seconds of the frames.
        cost: What it cost, whenever it was paid.
        paid: What was paid for it now.
    """

    arms: tuple[ModelArm, ...]
    camera: str
    seconds: tuple[float, ...]
    cost: Cost
    paid: Cost


@dataclass(slots=True)
class _Bill:
    """What the calls for one episode have cost so far.

    Attributes:
        vlm: The model.
        cost: What they cost, whenever it was paid.
        paid: What was paid for them now.
    """

    vlm: Vlm
    cost: Cost = field(default_factory=Cost)
    paid: Cost = field(default_factory=Cost)

    def ask(self, requests: Sequence[VlmRequest]) -> list[VlmReply]:
        """The replies to some requests, in order. Raises the ModelError of the first that failed."""
        replies = self.vlm.ask(requests)
        for reply in replies:
            self.cost, self.paid = self.cost + reply.cost, self.paid + _paid_now(reply)
        for reply in replies:
            if isinstance(reply, VlmFailure):
                raise reply.error
        return [reply for reply in replies if isinstance(reply, VlmReply)]

    def unusable(self, problem: str, reply: VlmReply) -> ModelError:
        """The error of a reply that cannot be used."""
        return ModelError(problem, f"{self.vlm.name} replied {reply.text[:200]!r}")


def _paid_now(reply: VlmReply | VlmFailure) -> Cost:
    return reply.cost if isinstance(reply, VlmFailure) else reply.paid


class SpanFinder:
    """Asks a model what is done when in episodes; it gets frames of one camera, and neither instruction nor signals.

    Args:
        vlm: The model; it keeps its replies and books their cost.
        camera: Name of the camera, or "" for the best view.

    Attributes:
        prompt_hash: Hash of all that it is asked beside the frames.
        settings: What makes its spans what they are, for the producer of the segments.
    """

    def __init__(self, vlm: Vlm, camera: str = "") -> None:
        self.vlm, self._camera = vlm, camera
        # For an estimate: most back ends hold schemas.
        self._has_schema = "schema" in vlm.capabilities or UNKNOWN_UNTIL_LOADED in vlm.name
        prompts = [read_prompt(_PACKAGE, name) for name in ("spans", "form")]
        self.prompt_hash = short_hash([*prompts, spans_schema()])
        self.settings: dict[str, Json] = {
            **MODEL_SETTINGS,
            **vlm.settings,
            "family": vlm.family,
            "has_schema": self._has_schema,
        }

    def select_frames(self, subject: Subject) -> CameraSeconds:
        """The frames of a short episode; those of a long one are decoded when they are needed."""
        camera = choose_camera(subject.episode, self._camera)
        seconds = [second for window in self._plan(subject, camera) for second in window.seconds]
        if camera is None or len(seconds) > _MOST_SHARED:
            return {}
        return {camera.name: sorted(set(seconds))}

    def preflight(self, producers: Sequence[Producer]) -> Preflight:
        """Ask the model once about frames without content. Raises ModelError where its reply cannot be used."""
        seconds = tuple(position * STEP_SECONDS for position in range(_TEST_FRAMES))
        window = Window(start=0.0, stop=seconds[-1] + STEP_SECONDS, seconds=seconds, step=STEP_SECONDS)
        images = grey_frames(_TEST_FRAMES)
        height, width = images.shape[1:3]
        view = CameraView(name="", role="front", height=height, width=width, seconds=seconds)
        plan = _plan_sheets(view)
        request = self._window_request(window, plan, plan.arrange(lambda name, requested: images))
        return make_test_call(self.vlm, request, lambda reply: self._test_problem(reply, window))

    def _test_problem(self, reply: VlmReply, window: Window) -> str:
        """What is wrong with the form of the reply about frames without content; a model without schemas may say it."""
        read = read_window_reply(reply.text, window)
        return read if isinstance(read, str) and self._has_schema else ""

    def find(self, work: Work) -> ModelTimeline | PaidFailure | MediaError:
        """What is done when in the episode of a work; a failure names the first reply that cannot be used."""
        camera = choose_camera(work.episode, self._camera)
        if camera is None:
            return MediaError("episode has no such camera", f"{self._camera or 'any'!r}")
        windows, bill = self._plan(work.subject, camera), _Bill(self.vlm)
        try:
            arms = stitch_windows(self._read_windows(work, camera, windows, bill))
        except MediaError as error:
            return error if not bill.paid.calls else PaidFailure(error, bill.paid)
        except ModelError as error:
            return PaidFailure(error, bill.paid)
        seconds = sorted({second for window in windows for second in window.seconds})
        return ModelTimeline(
            arms=tuple(arms), camera=camera.name, seconds=tuple(seconds), cost=bill.cost, paid=bill.paid
        )

    def _plan(self, subject: Subject, camera: Camera | None) -> list[Window]:
        if camera is None:
            return []
        rate_hz = compute_camera_rate_hz(subject.episode, camera)
        _, last = frame_range(camera, subject, rate_hz)
        return plan_windows(last, rate_hz, subject.episode.duration_seconds)

    def _read_windows(
        self, work: Work, camera: Camera, windows: Sequence[Window], bill: _Bill
    ) -> list[ReadWindow]:
        """What the model says of each window. Raises ModelError at the first reply that cannot be used."""
        read: list[ReadWindow] = []
        for part in batched(windows, _REQUESTS_AT_ONCE):
            requests = [self._frames_request(work, camera, window) for window in part]
            work.release_frames()
            for window, reply in zip(part, bill.ask(requests), strict=True):
                read.append(self._read_window(reply, window, bill))
        return read

    def _frames_request(self, work: Work, camera: Camera, window: Window) -> VlmRequest:
        plan = _plan_sheets(_make_view(camera, window.seconds))
        images = ReadableImages(lambda: plan.arrange(partial(_read_frames, work)))
        return self._window_request(window, plan, images)

    def _window_request(
        self, window: Window, plan: FramePlan, images: Sequence[NDArray[np.uint8]]
    ) -> VlmRequest:
        return VlmRequest(
            images=images,
            prompt=_window_prompt(window, plan),
            schema=spans_schema() if self._has_schema else None,
            max_tokens=MAX_NEW_TOKENS,
        )

    def _read_window(self, reply: VlmReply, window: Window, bill: _Bill) -> ReadWindow:
        """The changes in a reply; one in words is put into the form by a second call of a model without schemas."""
        is_form = not isinstance(read_tolerantly(SpansForm, reply.text), str)
        if not is_form and not self._has_schema and reply.text.strip():
            data = escape_json({"description": reply.text})
            prompt = read_prompt(_PACKAGE, "form").replace("{data}", data)
            (reply,) = bill.ask([VlmRequest(images=(), prompt=prompt, max_tokens=MAX_NEW_TOKENS)])
        read = read_window_reply(reply.text, window)
        if isinstance(read, str):
            raise bill.unusable(f"spans cannot be used: {read}", reply)
        return read

    def estimate(self, subject: Subject, is_served: bool) -> Cost:
        """What an episode costs, with a change in four seconds; `usd` is left to the price where a server is paid."""
        camera = choose_camera(subject.episode, self._camera)
        if camera is None:
            return Cost()
        windows = self._plan(subject, camera)
        plans = [_plan_sheets(_make_view(camera, window.seconds)) for window in windows]
        changes = math.ceil(_CHANGES_PER_SECOND * subject.episode.duration_seconds)
        words = len(windows) * count_prompt_tokens(read_prompt(_PACKAGE, "spans"))
        frames = sum(len(window.seconds) for window in windows)
        return Cost(
            calls=len(windows),
            tokens_in=words + frames * _FRAME_TOKENS + sum(map(self._image_tokens, plans)),
            tokens_out=(len(windows) + changes) * _SPAN_TOKENS,
            usd=None if is_served else 0.0,
        )

    def _image_tokens(self, plan: FramePlan) -> int:
        name = str(self.vlm.settings.get("served_from") or self.vlm.name)
        return estimate_image_tokens(name, plan.image_sizes())


def load_span_finder(options: Options, camera: str, stores: Stores) -> SpanFinder:
    """The finder with the model of a run, by default the captioner's. Raises as `load_vlm`."""
    spec = options.model or options.settings.caption_model
    return SpanFinder(load_vlm(spec, options, MAX_NEW_TOKENS, stores), camera)


def plan_windows(last_frame: int, rate_hz: float, duration_seconds: float) -> list[Window]:
    """The windows of an episode: equally long, at most 60 frames each, and each shares frames with the next.

    Args:
        last_frame: Number of the last frame, from 0.
        rate_hz: Frames a second.
        duration_seconds: Of the episode.
    """
    every = max(1, round(rate_hz * STEP_SECONDS))
    seconds = [
        frame_second(index, rate_hz) for index in sorted({*range(0, last_frame + 1, every), last_frame})
    ]
    count = max(1, math.ceil((len(seconds) - SHARED_FRAMES) / (MOST_FRAMES - SHARED_FRAMES)))
    size = math.ceil((len(seconds) + (count - 1) * SHARED_FRAMES) / count)
    starts = [min(number * (size - SHARED_FRAMES), len(seconds) - size) for number in range(count)]
    return [
        Window(
            start=0.0 if number == 0 else seconds[start],
            stop=duration_seconds if number == count - 1 else seconds[start + size - 1],
            seconds=tuple(seconds[start : start + size]),
            step=every / rate_hz,
            is_first=number == 0,
            is_last=number == count - 1,
        )
        for number, start in enumerate(starts)
    ]


def _make_view(camera: Camera, seconds: Sequence[float]) -> CameraView:
    return CameraView(
        name=camera.name, role=camera.role, height=camera.height, width=camera.width, seconds=seconds
    )


def _plan_sheets(view: CameraView) -> FramePlan:
    """Frames as contact sheets of three by three, each with its second above it."""
    return FramePlan(name="sheets", views=[view], columns=_SIDE, rows=_SIDE)


def _read_frames(work: Work, camera: str, seconds: Sequence[float]) -> NDArray[np.uint8]:
    """(N, H, W, 3) frames of a camera, decoded now where the run has not done it."""
    request = {camera: seconds}
    frames = work.frames.elsewhere(request) if work.frames.missing(request) else work.frames
    return frames.at(camera, seconds)


def _window_prompt(window: Window, plan: FramePlan) -> str:
    prompt = read_prompt(_PACKAGE, "spans").replace("{legend}", plan.legend())
    return prompt.replace("{start}", f"{window.start:.2f}").replace("{stop}", f"{window.stop:.2f}")
