"""Finds the spans of an episode by a vision-language model: sheets of windows, then a second look at changes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from annotators.base import PaidFailure, Preflight, Subject, Work, make_episode_subject
from annotators.caption import (
    CameraView,
    FramePlan,
    choose_camera,
    count_prompt_tokens,
    frame_range,
    frame_second,
)
from annotators.models import (
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
    price_usd,
)
from annotators.prompting import escape_json, read_prompt
from annotators.segment.spans import TEXT_ANNOTATORS
from annotators.segment.timeline import (
    LooksForm,
    ModelArm,
    ModelBoundary,
    ReadWindow,
    SpansForm,
    Window,
    read_looks_reply,
    read_tolerantly,
    read_window_reply,
    settle_looks,
    spans_schema,
    stitch_windows,
)
from ares.annotation import Cost, Maker, short_hash
from ares.clock import compute_camera_rate_hz
from ares.episode import Camera, Json
from ares.errors import MediaError, ModelError
from ares.store import batched

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from annotators.base import CameraSeconds, Options
    from ares.settings import Price
    from ares.store import Stores


_PACKAGE = "annotators.segment"
# Of one call; between two frames of the first look; frames that two windows share.
MOST_FRAMES, STEP_SECONDS, SHARED_FRAMES = 60, 0.5, 8
# Contact sheets of so many columns and rows; a second look shows each change on one sheet of its own.
_SIDE = 3
_LOOK_FRAMES = _SIDE * _SIDE
LOOK_STEP_SECONDS, LOOKS_OF_A_CALL = 0.125, MOST_FRAMES // _LOOK_FRAMES
MAX_NEW_TOKENS = 2_000
# Requests in hand at a time: an hour of video has more frames than there is memory.
_REQUESTS_AT_ONCE = 4
# Frames that the run decodes for all its annotators at once; those of a longer episode are decoded window by window.
_MOST_SHARED = 4 * MOST_FRAMES
_TEST_FRAMES = 9
# For quotes only: tokens of the reply about a span and about a change, and of the time of a frame in a prompt.
_SPAN_TOKENS, _LOOK_TOKENS, _FRAME_TOKENS = 38, 20, 7
# Fewer episodes are not representative; more are not read.
_FEWEST_MEASURED, _MOST_MEASURED = 5, 200
# Changes a second of an episode of which nothing is known.
USUAL_CHANGES_PER_SECOND = 0.25

# Calls, tokens that a model reads, and tokens that it writes; they need not be whole.
Amounts = tuple[float, float, float]

MODEL_SETTINGS: dict[str, Json] = {
    "most_frames": MOST_FRAMES,
    "step": STEP_SECONDS,
    "shared_frames": SHARED_FRAMES,
    "look_step": LOOK_STEP_SECONDS,
    "max_new_tokens": MAX_NEW_TOKENS,
    "temperature": 0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTimeline:
    """What a model saw in an episode.

    Attributes:
        arms: Its changes, for each arm.
        camera: The camera.
        seconds: Seconds of the frames of the first look.
        cost: What it cost, whenever it was paid.
        paid: What was paid for it now.
    """

    arms: tuple[ModelArm, ...]
    camera: str
    seconds: tuple[float, ...]
    cost: Cost
    paid: Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class _MeasuredSpans:
    """What was found in some episodes.

    Attributes:
        subjects: The episodes.
        changes_per_second: Changes a second, over all arms.
        cost: What it cost.
    """

    subjects: Sequence[Subject]
    changes_per_second: float
    cost: Cost


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
        settings: What makes its spans what they are, for the maker of the segments.
    """

    def __init__(self, vlm: Vlm, camera: str = "") -> None:
        self.vlm, self._camera = vlm, camera
        # For an estimate: most back ends hold schemas.
        self._has_schema = "schema" in vlm.capabilities or UNKNOWN_UNTIL_LOADED in vlm.name
        prompts = [read_prompt(_PACKAGE, name) for name in ("spans", "look", "form")]
        schemas = [spans_schema(), LooksForm.model_json_schema()]
        self.prompt_hash = short_hash([*prompts, *schemas])
        self.settings: dict[str, Json] = {
            **MODEL_SETTINGS,
            **vlm.settings,
            "family": vlm.family,
            "has_schema": self._has_schema,
        }

    def select_frames(self, subject: Subject) -> CameraSeconds:
        """The frames of the first look at a short episode; those of a long one are decoded when they are needed."""
        camera = choose_camera(subject.episode, self._camera)
        seconds = [second for window in self._plan(subject, camera) for second in window.seconds]
        if camera is None or len(seconds) > _MOST_SHARED:
            return {}
        return {camera.name: sorted(set(seconds))}

    def preflight(self, makers: Sequence[Maker]) -> Preflight:
        """Ask the model once about frames without content. Raises ModelError where its reply cannot be used."""
        seconds = tuple(position * STEP_SECONDS for position in range(_TEST_FRAMES))
        window = Window(start=0.0, stop=seconds[-1] + STEP_SECONDS, seconds=seconds, step=STEP_SECONDS)
        images = grey_frames(_TEST_FRAMES)
        height, width = images.shape[1:3]
        view = CameraView(name="", role="front", height=height, width=width, seconds=seconds)
        plan = _plan_sheets(view)
        request = self._window_request(window, plan, plan.arrange(lambda name, asked: images))
        return make_test_call(self.vlm, request, lambda reply: self._test_problem(reply, window))

    def _test_problem(self, reply: VlmReply, window: Window) -> str:
        """What is wrong with the form of the reply about frames without content; a model without schemas may say it."""
        read = read_window_reply(reply.text, window, 0)
        return read if isinstance(read, str) and self._has_schema else ""

    def find(self, work: Work) -> FoundTimeline | PaidFailure | MediaError:
        """What is done when in the episode of a work; a failure names the first reply that cannot be used."""
        camera = choose_camera(work.episode, self._camera)
        if camera is None:
            return MediaError("episode has no such camera", f"{self._camera or 'any'!r}")
        windows, bill = self._plan(work.subject, camera), _Bill(self.vlm)
        try:
            read = self._read_windows(work, camera, windows, bill)
            arms = self._look_again(work, camera, stitch_windows(read), bill)
        except MediaError as error:
            return error if not bill.paid.calls else PaidFailure(error, bill.paid)
        except ModelError as error:
            return PaidFailure(error, bill.paid)
        seconds = sorted({second for window in windows for second in window.seconds})
        return FoundTimeline(
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
        for part in batched(list(enumerate(windows)), _REQUESTS_AT_ONCE):
            requests = [self._first_look(work, camera, window) for _, window in part]
            work.release_frames()
            for (number, window), reply in zip(part, bill.ask(requests), strict=True):
                read.append(self._read_window(reply, window, number, bill))
        return read

    def _first_look(self, work: Work, camera: Camera, window: Window) -> VlmRequest:
        plan = _plan_sheets(_view(camera, window.seconds))
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

    def _read_window(self, reply: VlmReply, window: Window, number: int, bill: _Bill) -> ReadWindow:
        """The changes in a reply; one in words is put into the form by a second call of a model without schemas."""
        is_form = not isinstance(read_tolerantly(SpansForm, reply.text), str)
        if not is_form and not self._has_schema and reply.text.strip():
            data = escape_json({"description": reply.text})
            prompt = read_prompt(_PACKAGE, "form").replace("{data}", data)
            (reply,) = bill.ask([VlmRequest(images=(), prompt=prompt, max_tokens=MAX_NEW_TOKENS)])
        read = read_window_reply(reply.text, window, number)
        if isinstance(read, str):
            raise bill.unusable(f"spans cannot be used: {read}", reply)
        return read

    def _look_again(
        self, work: Work, camera: Camera, arms: Sequence[ModelArm], bill: _Bill
    ) -> list[ModelArm]:
        """The arms with each change where a second look saw it. Raises ModelError at a reply that cannot be used."""
        changes = sorted(
            (change for arm in arms for change in arm.boundaries), key=lambda own: (own.seconds, own.arm)
        )
        rate_hz = compute_camera_rate_hz(work.episode, camera)
        seen: dict[ModelBoundary, float | None] = {}
        groups = [list(group) for group in batched(changes, LOOKS_OF_A_CALL)]
        for part in batched(groups, _REQUESTS_AT_ONCE):
            shown = [[look_seconds(own.seconds, camera, rate_hz) for own in group] for group in part]
            requests = [
                self._second_look(work, camera, group, own) for group, own in zip(part, shown, strict=True)
            ]
            for group, own, reply in zip(part, shown, bill.ask(requests), strict=True):
                found = read_looks_reply(reply.text, own)
                if isinstance(found, str):
                    raise bill.unusable(f"second look cannot be used: {found}", reply)
                seen |= dict(zip(group, found, strict=True))
        step = max(STEP_SECONDS, 1 / rate_hz)
        return [settle_looks(arm, [seen[own] for own in arm.boundaries], step) for arm in arms]

    def _second_look(
        self,
        work: Work,
        camera: Camera,
        changes: Sequence[ModelBoundary],
        shown: Sequence[Sequence[float]],
    ) -> VlmRequest:
        return VlmRequest(
            images=ReadableImages(lambda: _arrange_looks(work, camera, shown)),
            prompt=_look_prompt(changes, shown),
            schema=LooksForm.model_json_schema() if self._has_schema else None,
            max_tokens=MAX_NEW_TOKENS,
        )

    def expect_amounts(self, subject: Subject, changes_per_second: float) -> Amounts:
        """What an episode is expected to take: calls, tokens that the model reads, tokens that it writes.

        Args:
            subject: The episode.
            changes_per_second: Changes a second, over all arms.
        """
        camera = choose_camera(subject.episode, self._camera)
        windows = self._plan(subject, camera)
        if camera is None:
            return 0.0, 0.0, 0.0
        plans = [_plan_sheets(_view(camera, window.seconds)) for window in windows]
        changes = changes_per_second * subject.episode.duration_seconds
        # The last call of an episode has few changes or many: on average half of them, and one at the least.
        looks = changes / LOOKS_OF_A_CALL + min(changes, (LOOKS_OF_A_CALL - 1) / 2 / LOOKS_OF_A_CALL)
        sheet = _plan_sheets(_view(camera, [0.0] * _LOOK_FRAMES))
        words = len(windows) * _count_words("spans") + looks * _count_words("look")
        frames = sum(len(window.seconds) for window in windows) + changes * _LOOK_FRAMES
        images = sum(map(self._image_tokens, plans)) + changes * self._image_tokens(sheet)
        spans = len(windows) + changes_per_second * sum(window.stop - window.start for window in windows)
        return (
            len(windows) + looks,
            words + frames * _FRAME_TOKENS + images,
            spans * _SPAN_TOKENS + changes * _LOOK_TOKENS,
        )

    def _image_tokens(self, plan: FramePlan) -> int:
        name = str(self.vlm.settings.get("served_from") or self.vlm.name)
        return estimate_image_tokens(name, plan.image_sizes())


def load_span_finder(options: Options, camera: str, stores: Stores) -> SpanFinder:
    """The finder with the model of a run, by default the captioner's. Raises as `load_vlm`."""
    spec = options.model or options.settings.caption_model
    return SpanFinder(load_vlm(spec, options, MAX_NEW_TOKENS, stores), camera)


class SpanQuote:
    """What a run of a model will cost: by what its earlier calls have cost, else by how many changes there may be.

    Args:
        stores: Stores of the workspace.
        finder: The model.
        maker_id: Maker of its segments.
        price: What its tokens cost, or None.
        is_served: Whether its calls cost money.
    """

    def __init__(
        self, stores: Stores, finder: SpanFinder, maker_id: str, price: Price | None, is_served: bool
    ) -> None:
        self._stores, self._finder, self._maker_id = stores, finder, maker_id
        self._price, self._is_served = price, is_served

    def expect_run(self, sample: Sequence[Subject], planned: int) -> Cost:
        """The expected cost of so many episodes, of which a sample is like the others."""
        measured = self._measure([self._maker_id])
        rate = measured.changes_per_second if measured else self._rate_of_others()
        amounts = self._expect_all(sample, rate)
        if measured:
            usual, cost = self._expect_all(measured.subjects, rate), measured.cost
            paid = (cost.calls, cost.tokens_in, cost.tokens_out)
            amounts = [own * now / max(then, 1) for own, now, then in zip(amounts, paid, usual, strict=True)]
        share = planned / max(len(sample), 1)
        calls, tokens_in, tokens_out = (round(own * share) for own in amounts)
        usd = price_usd(self._price, tokens_in, tokens_out) if self._is_served else 0.0
        return Cost(calls=calls, tokens_in=tokens_in, tokens_out=tokens_out, usd=usd)

    def _expect_all(self, subjects: Sequence[Subject], rate: float) -> list[float]:
        amounts = [self._finder.expect_amounts(subject, rate) for subject in subjects]
        return [sum(column) for column in zip(*amounts, strict=True)] or [0.0] * 3

    def _rate_of_others(self) -> float:
        """Changes a second: of spans that people or sources gave, of those of other models, or the usual ones."""
        makers = {id: own for id, own in self._stores.annotations.makers().items() if own.fills_segments}
        given = [id for id, own in makers.items() if own.kind == "person" or own.annotator in TEXT_ANNOTATORS]
        models = [id for id, own in makers.items() if own.annotator == "segment" and own.kind == "model"]
        for ids in (given, models):
            measured = self._measure(ids) if ids else None
            if measured:
                return measured.changes_per_second
        return USUAL_CHANGES_PER_SECOND

    def _measure(self, maker_ids: Sequence[str]) -> _MeasuredSpans | None:
        """What some makers have found, and what it has cost; None where too few episodes tell."""
        log = self._stores.annotations
        makers = log.makers()
        known = {id: makers[id].annotator for id in maker_ids if id in makers}
        found = sorted({episode for id, name in known.items() for episode in log.find_episodes(name, id)})
        if len(found) < _FEWEST_MEASURED:
            return None
        spans = log.find_annotations(found[:_MOST_MEASURED], maker_ids=list(known))
        episodes = self._stores.tables.episodes.get(found[:_MOST_MEASURED])
        seconds = {own.episode_id: own.duration_seconds for own in episodes}
        # Several makers may have segmented an episode: each of them has looked at all of it.
        looked = sum(seconds.get(id, 0.0) for id, _ in {(own.episode_id, own.maker_id) for own in spans})
        changes = sum(own.start_seconds > 0 for own in spans)
        return _MeasuredSpans(
            subjects=[make_episode_subject(episode) for episode in episodes],
            changes_per_second=changes / max(looked, 1e-9),
            cost=sum((own.cost for own in spans), Cost()),
        )


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


def look_seconds(seconds: float, camera: Camera, rate_hz: float) -> list[float]:
    """Seconds of the dense frames around a change, in order; fewer than nine at an end of the episode."""
    every = max(1, round(rate_hz * LOOK_STEP_SECONDS))
    middle, last = math.floor(seconds * rate_hz), max(camera.media.num_frames, 1) - 1
    indices = [middle + every * (position - _LOOK_FRAMES // 2) for position in range(_LOOK_FRAMES)]
    return [frame_second(index, rate_hz) for index in indices if 0 <= index <= last] or [
        frame_second(last, rate_hz)
    ]


def _view(camera: Camera, seconds: Sequence[float]) -> CameraView:
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


def _arrange_looks(work: Work, camera: Camera, shown: Sequence[Sequence[float]]) -> list[NDArray[np.uint8]]:
    """A contact sheet for each change; the frames of all are decoded at once."""
    import numpy as np

    asked = sorted({second for seconds in shown for second in seconds})
    frames = dict(zip(asked, _read_frames(work, camera.name, asked), strict=True))
    return [
        image
        for seconds in shown
        for image in _plan_sheets(_view(camera, seconds)).arrange(
            lambda name, own: np.stack([frames[second] for second in own])
        )
    ]


def _count_words(prompt: str) -> int:
    """Tokens of a prompt without the times of its frames."""
    return count_prompt_tokens(read_prompt(_PACKAGE, prompt))


def _window_prompt(window: Window, plan: FramePlan) -> str:
    prompt = read_prompt(_PACKAGE, "spans").replace("{legend}", plan.legend())
    return prompt.replace("{start}", f"{window.start:.2f}").replace("{stop}", f"{window.stop:.2f}")


def _look_prompt(changes: Sequence[ModelBoundary], shown: Sequence[Sequence[float]]) -> str:
    legend = "\n".join(_describe_looks(changes, shown))
    return read_prompt(_PACKAGE, "look").replace("{legend}", legend)


def _describe_looks(changes: Sequence[ModelBoundary], shown: Sequence[Sequence[float]]) -> Iterator[str]:
    for number, (change, seconds) in enumerate(zip(changes, shown, strict=True), 1):
        data = escape_json({"before": change.before, "after": change.text, "arm": change.arm})
        times = ", ".join(f"{second:.2f} s" for second in seconds)
        yield f"Sheet {number}: {data}, at {times}."
