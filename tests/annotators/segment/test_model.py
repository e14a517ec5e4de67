"""Spans by a model: no event lost or doubled at a seam, replies of any form, kept replies, quotes, budget."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ares.annotation import Cost
from ares.errors import MediaError, ModelError
from ares.settings import Price, Settings
from ares.workspace import Workspace, open_workspace
from ares_annotators.base import Frames, PaidFailure, Work, make_episode_subject
from ares_annotators.models import VlmRequest
from ares_annotators.segment.model import MOST_FRAMES, ModelTimeline, SpanFinder
from tests.annotators.samples import make_camera, make_episode
from tests.annotators.scripted_vlm import StubVlm
from tests.generators.span_server import (
    PlantedErrors,
    SpanServer,
    ToldEpisode,
    answer_prompt,
    draw_log,
    tell,
    write_marked_videos,
)
from tests.workspaces import copy_workspace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ares_annotators.base import CameraSeconds

_MODEL = "Qwen/Qwen2.5-VL-7B-Instruct"
_SECONDS, _RATE_HZ, _EPISODES = 34.0, 5.0, 10


class _GreyFrames(Frames):
    """Small frames without content at any second, which count how many were asked for at once."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def missing(self, request: CameraSeconds) -> CameraSeconds:
        return {}

    def at(self, camera: str, seconds: Sequence[float]) -> NDArray[np.uint8]:
        self.asked.append(len(seconds))
        return np.zeros((len(seconds), 8, 8, 3), np.uint8)

    def release(self) -> None:
        pass


def _work(seconds: float, rate_hz: float = _RATE_HZ) -> Work:
    episode = make_episode("drawn", [make_camera("front", seconds, rate_hz, height=8, width=8)])
    return Work(subject=make_episode_subject(episode), frames=_GreyFrames(), trajectory=None)


def _teller(told: ToldEpisode, errors: PlantedErrors) -> StubVlm:
    return StubVlm(lambda request: answer_prompt(request.prompt, told, errors))


def _changes(found: Any) -> list[tuple[float, str]]:
    assert isinstance(found, ModelTimeline), found
    return [(own.seconds, own.text) for arm in found.arms for own in arm.boundaries]


@pytest.mark.parametrize("seed", range(30))
def test_no_event_is_lost_or_doubled_at_a_seam(seed: int) -> None:
    dice = random.Random(seed)
    errors = PlantedErrors(noise=0.05, jitter=dice.uniform(0, 0.25), one_sided=0.5)
    seconds = dice.uniform(31, 150)
    told = tell(0, draw_log(dice, seconds, 1.0), errors, dice)
    found = SpanFinder(_teller(told, errors)).find(_work(seconds, dice.choice([5.0, 10.0, 15.0, 30.0, 50.0])))
    assert [text for _, text in _changes(found)] == [change.name for change in told.told]
    for (second, _), change in zip(_changes(found), told.told, strict=True):
        assert second == pytest.approx(change.seconds, abs=0.26)


def test_a_call_has_at_most_60_frames_and_the_model_gets_neither_instruction_nor_signals() -> None:
    told = tell(0, draw_log(random.Random(5), 90.0, 1.0), PlantedErrors(), random.Random(5))
    vlm, work = _teller(told, PlantedErrors()), _work(90.0)
    found = SpanFinder(vlm).find(work)
    assert isinstance(work.frames, _GreyFrames) and max(work.frames.asked) <= MOST_FRAMES
    assert isinstance(found, ModelTimeline) and found.cost.calls == len(vlm.history)
    # Nine frames of 8 by 8 pixels under bands with their times are one sheet.
    assert {image.shape for image in vlm.history[0].images[:-1]} == {(3 * 24, 3 * 8, 3)}
    assert not any("nowhere else" in request.prompt for request in vlm.history)
    assert any(image.any() for image in vlm.history[0].images), "no time above the frames"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("no idea", "spans cannot be used: reply is no JSON"),
        (
            '{"spans": [{"start": 9, "end": 2, "arm": "", "what": "x"}]}',
            "spans cannot be used: a span ends before",
        ),
        (
            '{"spans": [{"start": 0, "end": 999, "arm": "", "what": "x"}]}',
            "spans cannot be used: a span lies outside",
        ),
        ("", "spans cannot be used: reply is no JSON"),
    ],
)
def test_a_reply_that_cannot_be_used_is_one_failure_with_its_cost(reply: str, reason: str) -> None:
    vlm = StubVlm(lambda request: reply)
    failure = SpanFinder(vlm).find(_work(300.0))
    assert isinstance(failure, PaidFailure) and failure.error.reason.startswith(reason)
    # The other windows of an hour of video are not paid for any more.
    assert failure.cost.calls == len(vlm.history) == 4


def test_a_model_without_schemas_may_reply_in_words_that_a_second_call_puts_into_the_form() -> None:
    def answer(request: VlmRequest) -> str:
        if request.prompt.startswith("Put a description"):
            assert not request.images and "the arm picks a cup \\u003cbr\\u003e" in request.prompt
            return 'Here: {"spans": [{"start": 2, "end": 5.0, "what": "pick up the cup"}]}'
        return "First the arm picks a cup <br> from 2 to 5 seconds."

    vlm = StubVlm(answer)
    vlm.capabilities = frozenset()
    found = SpanFinder(vlm).find(_work(10.0))
    assert _changes(found) == [(2.0, "pick up the cup"), (5.0, "")]
    assert isinstance(found, ModelTimeline) and found.cost.calls == 2
    assert all(request.schema is None for request in vlm.history)


def test_an_episode_without_the_camera_fails_without_a_call() -> None:
    vlm = StubVlm(lambda request: "never")
    assert isinstance(SpanFinder(vlm, "wrist").find(_work(10.0)), MediaError)
    assert not vlm.history


def test_a_failure_of_the_server_costs_what_was_paid_before() -> None:
    vlm = StubVlm(lambda request: ModelError("server is down", "try later"))
    failure = SpanFinder(vlm).find(_work(10.0))
    assert isinstance(failure, PaidFailure) and failure.error.reason == "server is down"
    assert failure.cost.calls == 0


# The rest goes through a server, the runner and a workspace.


def _tell_all(numbers: Sequence[int], errors: PlantedErrors) -> dict[int, ToldEpisode]:
    return {
        number: tell(number, draw_log(random.Random(number), _SECONDS, 1.2), errors, random.Random(-number))
        for number in numbers
    }


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace of videos whose frames show their numbers; it is only copied."""
    folder = tmp_path_factory.mktemp("marked")
    videos = write_marked_videos(folder / "videos", range(_EPISODES), _SECONDS, _RATE_HZ)
    with open_workspace(str(folder / "ws"), Settings(), create=True) as opened:
        opened.ingest(videos, quiet=True)
    return folder / "ws"


@pytest.fixture
def ws(marked: Path, tmp_path: Path) -> Iterator[Workspace]:
    settings = Settings(price=Price(usd_per_mtok_in=1.0, usd_per_mtok_out=4.0))
    with open_workspace(str(copy_workspace(marked, tmp_path / "ws")), settings) as opened:
        yield opened


@pytest.fixture
def serve() -> Iterator[Callable[..., SpanServer]]:
    with ExitStack() as servers:

        def start(errors: PlantedErrors, is_one_log: bool = False) -> SpanServer:
            told = _tell_all(range(_EPISODES), errors)
            if is_one_log:
                told = {number: replace(told[0], number=number) for number in told}
            return servers.enter_context(SpanServer({_MODEL: (errors, told)}))

        yield start


@pytest.mark.slow
def test_segments_say_what_a_server_told_and_a_second_run_pays_nothing(
    ws: Workspace, serve: Callable[..., SpanServer]
) -> None:
    server = serve(PlantedErrors(noise=0.1, jitter=0.2, one_sided=0.3))
    keywords: dict[str, Any] = {"model": f"openai:{_MODEL}@{server.url}", "options": {"by": "model"}}
    (report,) = ws.annotate("segment", quiet=True, **keywords)
    assert (report.kept, report.failed) == (_EPISODES, 0)
    told = _tell_all(range(_EPISODES), PlantedErrors(noise=0.1, jitter=0.2, one_sided=0.3))
    log = ws.stores.annotations
    for episode in ws.stores.tables.episodes.read():
        spans = log.find_annotations([episode.episode_id], ["segment"])
        expected = told[int(episode.key.partition(".")[0])]
        assert [own.value["text"] for own in spans] == [
            expected.events[0].name,
            *(own.name for own in expected.told),
        ]
        assert spans[-1].stop_seconds == pytest.approx(_SECONDS, abs=0.3)
        assert {own.value["author"] for own in spans} == {_MODEL}
        assert [own.cost.calls > 0 for own in spans] == [True] + [False] * (len(spans) - 1)
    answered = len(server.calls[_MODEL])
    assert report.cost.calls == answered and report.cost.usd
    # Another producer with the same questions, as after a change of how replies are read.
    camera = next(iter(ws.stores.tables.episodes.read())).cameras[0].name
    options = {"by": "model", "camera": camera}
    (again,) = ws.annotate("segment", quiet=True, model=keywords["model"], options=options)
    assert (again.kept, again.cost.calls) == (_EPISODES, 0) and len(server.calls[_MODEL]) == answered


@pytest.mark.slow
def test_a_quote_of_episodes_like_those_that_were_paid_is_within_a_tenth(
    ws: Workspace, serve: Callable[..., SpanServer]
) -> None:
    server = serve(PlantedErrors(), is_one_log=True)
    keywords: dict[str, Any] = {"model": f"openai:{_MODEL}@{server.url}", "options": {"by": "model"}}
    (first,) = ws.estimate("segment", **keywords)
    (paid,) = ws.annotate("segment", quiet=True, limit=5, **keywords)
    # Before any is paid, a change in four seconds is expected: not what these episodes have.
    assert paid.cost.calls < 0.9 * first.cost.calls
    (quote,) = ws.estimate("segment", **keywords)
    (rest,) = ws.annotate("segment", quiet=True, **keywords)
    assert (quote.planned - (quote.already or 0), rest.kept) == (5, 5)
    for quoted, cost in zip(_amounts(quote.cost), _amounts(rest.cost), strict=True):
        assert quoted == pytest.approx(cost, rel=0.1)


def _amounts(cost: Cost) -> tuple[float, ...]:
    return cost.calls, cost.tokens_in, cost.tokens_out, cost.usd or 0.0


@pytest.mark.slow
def test_a_broken_reply_costs_its_episode_alone_one_line_and_one_record(
    ws: Workspace, serve: Callable[..., SpanServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(PlantedErrors())
    complete = server.complete

    def break_some(document: dict[str, Any]) -> dict[str, Any]:
        reply = complete(document)
        if '"spans": [{"start": 0.0' in (text := reply["choices"][0]["message"]["content"]):
            spans = json.loads(text)["spans"]
            if spans[0]["what"] == _tell_all([3], PlantedErrors())[3].events[0].name:
                reply["choices"][0]["message"]["content"] = json.dumps(
                    {"spans": [*spans[::-1], dict(spans[0], end=-5)]}
                )
        return reply

    monkeypatch.setattr(server, "complete", break_some)
    (report,) = ws.annotate(
        "segment", quiet=True, model=f"openai:{_MODEL}@{server.url}", options={"by": "model"}
    )
    assert (report.kept, report.failed) == (_EPISODES - 1, 1)
    ((reason, count),) = [(own.reason, own.count) for own in report.failures]
    assert (reason, count) == ("spans cannot be used: a span ends before it starts", 1)
    assert report.cost.calls == len(server.calls[_MODEL])


def test_a_small_budget_leaves_episodes_open(ws: Workspace, serve: Callable[..., SpanServer]) -> None:
    server = serve(PlantedErrors())
    keywords: dict[str, Any] = {"model": f"openai:{_MODEL}@{server.url}", "options": {"by": "model"}}
    (report,) = ws.annotate("segment", quiet=True, budget_usd=0.01, **keywords)
    assert report.open and not report.failed and report.ended_by == "budget"
    assert (report.cost.usd or 0) <= 0.01
    (rest,) = ws.annotate("segment", quiet=True, **keywords)
    assert report.kept + rest.kept == _EPISODES
    assert report.cost.calls + rest.cost.calls == len(server.calls[_MODEL])
