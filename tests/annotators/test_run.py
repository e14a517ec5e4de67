"""A run does what is lacking, once, counts all of it, and survives bad answers, dead servers and empty purses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from annotators.base import Annotator, FrameVectors, Options, Result, Work
from annotators.facts import fact
from annotators.run import annotate, quote
from ares import registry
from ares.annotation import Annotation, Column, Cost, Maker
from ares.episode import Json
from ares.errors import AresError, ModelError, RequestError
from ares.jobs.ledger import FAILURES
from ares.media.ref import MediaRef
from ares.search import spaces
from ares.settings import Price, from_environment
from ares.workspace import Workspace, open_workspace
from ingest.load import load

SETTINGS = from_environment({})
MARK = Maker(annotator="mark", version="1", columns=(Column(name="mark", type="string", meaning="a mark"),))

Answer = Callable[[Work], Result | AresError]


@pytest.fixture
def ws(tmp_path: Path, demo_samples: Path) -> Workspace:
    ws = open_workspace(str(tmp_path / "workspace"), SETTINGS)
    load(ws, [str(demo_samples / "video")], quiet=True)
    return ws


@pytest.fixture
def enter() -> Iterator[Callable[..., None]]:
    """Enters an annotator under a name, for one test."""
    names: list[str] = []

    def add(name: str, **parts: Any) -> None:
        annotator = Annotator(**parts)
        registry.annotators.add(name, lambda options, ws: annotator)
        names.append(name)

    yield add
    for name in names:
        registry.annotators.remove(name)


def marks(work: Work, maker: Maker = MARK, cost: Cost | None = None) -> Result:
    made = fact(work, maker, value={"mark": work.episode.instruction}, cost=cost or Cost())
    return Result(annotations=[made])


def each(answer: Answer) -> Callable[[Sequence[Work]], list[Result | AresError]]:
    return lambda works: [answer(work) for work in works]


def run(ws: Workspace, *names: str, **asked: Any) -> list[dict[str, Any]]:
    return annotate(ws, names, Options(settings=ws.settings), quiet=True, **asked)


def counts(document: dict[str, Any]) -> tuple[int, ...]:
    return tuple(document[name] for name in ("planned", "kept", "already", "failed"))


def test_again_does_nothing_and_another_maker_does_it_again(
    ws: Workspace, enter: Callable[..., None]
) -> None:
    enter("mark", maker=MARK, process=each(marks), batch=5)
    assert counts(run(ws, "mark")[0]) == (12, 12, 0, 0)
    assert counts(run(ws, "mark")[0]) == (12, 0, 12, 0)
    assert ws.tables.episodes.count("mark IS NOT NULL") == 12
    other = Maker(annotator="mark", version="2", columns=MARK.columns)
    enter("mark2", maker=other, process=each(lambda work: marks(work, other)))
    assert counts(run(ws, "mark2")[0]) == (12, 12, 0, 0)


def test_a_filter_and_a_limit_choose_what_lacks(ws: Workspace, enter: Callable[..., None]) -> None:
    enter("mark", maker=MARK, process=each(marks))
    assert counts(run(ws, "mark", where="success", limit=4)[0])[1:] == (4, 0, 0)
    assert counts(run(ws, "mark", where="success")[0]) == (6, 2, 4, 0)
    assert counts(run(ws, "mark")[0]) == (12, 6, 6, 0)


def test_a_failure_is_counted_with_its_reason_and_tried_again(
    ws: Workspace, enter: Callable[..., None]
) -> None:
    bad = {True}

    def answer(work: Work) -> Result | AresError:
        failing = bool(bad) and not work.episode.success
        return ModelError("reply is no JSON", "got 'x'") if failing else marks(work)

    enter("mark", maker=MARK, process=each(answer), batch=4, workers=2)
    first = run(ws, "mark")[0]
    assert counts(first) == (12, 6, 0, 6)
    assert first["failures"][0]["reason"] == "reply is no JSON" and first["failures"][0]["count"] == 6
    assert len(list(ws.annotations.find(FAILURES))) == 6
    bad.clear()
    assert counts(run(ws, "mark")[0]) == (12, 6, 6, 0)
    assert list(ws.annotations.find(FAILURES)) == []


def test_strict_stops_at_the_first_failure_and_keeps_what_was_made(
    ws: Workspace, enter: Callable[..., None]
) -> None:
    calls: list[str] = []

    def answer(work: Work) -> Result | AresError:
        calls.append(work.subject)
        return ModelError("no", "") if len(calls) == 5 else marks(work)

    enter("mark", maker=MARK, process=each(answer))
    with pytest.raises(ModelError):
        run(ws, "mark", strict=True)
    assert len(calls) == 5
    assert ws.annotations.counts().get("mark", 0) <= 4


def test_a_dead_server_is_given_up_but_every_episode_is_counted(
    ws: Workspace, enter: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("annotators.stage._GIVE_UP_AFTER", 3)
    calls: list[str] = []

    def answer(work: Work) -> Result | AresError:
        calls.append(work.subject)
        return ModelError("server cannot be reached", "http://127.0.0.1:9")

    enter("mark", maker=MARK, process=each(answer))
    document = run(ws, "mark")[0]
    assert counts(document) == (12, 0, 0, 12)
    assert len(calls) == 3
    assert {row["reason"]: row["count"] for row in document["failures"]} == {
        "server cannot be reached": 3,
        "not tried after many failures in a row": 9,
    }


def test_a_value_that_no_store_can_hold_costs_its_own_episode_only(
    ws: Workspace, enter: Callable[..., None]
) -> None:
    odd = min(ws.tables.episodes.ids())

    def answer(work: Work) -> Result:
        value: dict[str, Any] = {"mark": float("nan") if work.subject == odd else "fine"}
        return Result(annotations=[fact(work, MARK, value=value)])

    enter("mark", maker=MARK, process=each(answer))
    for kept, already in ((11, 0), (0, 11)):
        document = run(ws, "mark")[0]
        assert counts(document) == (12, kept, already, 1)
        assert document["failures"][0]["reason"] == "a value that is no JSON cannot be stored"
        assert [key.rsplit("/", 1)[-1] for key, _ in ws.annotations.find(FAILURES)] == [odd]


def test_a_bug_is_not_a_failure(ws: Workspace, enter: Callable[..., None]) -> None:
    def answer(work: Work) -> Result | AresError:
        raise ZeroDivisionError("a bug")

    enter("mark", maker=MARK, process=each(answer))
    with pytest.raises(ZeroDivisionError):
        run(ws, "mark")


def test_a_budget_is_a_hard_stop(ws: Workspace, enter: Callable[..., None]) -> None:
    dear = Cost(calls=1, tokens_in=1000, tokens_out=10, usd=0.3)
    enter(
        "mark", maker=MARK, process=each(lambda work: marks(work, cost=dear)), estimate=lambda episode: dear
    )
    with pytest.raises(RequestError, match="ARES_PRICE"):
        run(ws, "mark", budget_usd=1.0)
    priced = open_workspace(ws.path, from_environment({"ARES_PRICE": "1,2"}))
    assert priced.settings.price == Price(usd_per_mtok_in=1.0, usd_per_mtok_out=2.0)
    document = run(priced, "mark", budget_usd=1.0)[0]
    assert counts(document) == (12, 3, 0, 9)
    assert document["usd"] == pytest.approx(0.9)
    assert document["failures"][0]["reason"] == "the budget is spent"
    assert (document["calls"], document["tokens_in"]) == (3, 3000)


def test_a_quote_spends_nothing(ws: Workspace, enter: Callable[..., None]) -> None:
    before = ws.annotations.last_sequence()
    cost = Cost(calls=1, tokens_in=100, tokens_out=10, usd=0.01)

    def never(works: Sequence[Work]) -> list[Result | AresError]:
        raise AssertionError("a quote must not call the model")

    enter(
        "mark",
        maker=MARK,
        process=never,
        estimate=lambda episode: cost,
        wants=lambda episode: {"front": [0.0, 1.0]},
    )
    (quoted,) = quote(ws, ["mark"], Options(settings=SETTINGS), "success")
    assert (quoted.planned, quoted.already, quoted.frames, quoted.cost.calls) == (6, 0, 12, 6)
    assert quoted.cost.usd == pytest.approx(0.06)
    assert ws.annotations.last_sequence() == before


def test_a_grade_sees_the_caption_of_the_same_run_and_only_ungraded_ones_later(
    ws: Workspace, enter: Callable[..., None]
) -> None:
    caption = Maker(
        annotator="caption", version="1", columns=(Column(name="caption", type="string", meaning=""),)
    )
    judge = Maker(annotator="verdict", version="1")

    def said(work: Work) -> Result:
        value = {"text": "a caption", "caption": "a caption"}
        return Result(annotations=[fact(work, caption, value=value)])

    def judged(work: Work) -> Result:
        assert isinstance(work.about, Annotation) and work.about.value["text"] == "a caption"
        return Result(annotations=[fact(work, judge, value={"ok": True})])

    registry.annotators.add("told", lambda options, ws: Annotator(maker=caption, process=each(said), batch=4))
    registry.annotators.add(
        "judged", lambda options, ws: Annotator(maker=judge, process=each(judged), about="caption")
    )
    try:
        assert [counts(one) for one in run(ws, "judged")] == [(0, 0, 0, 0)]
        assert [counts(one) for one in run(ws, "told", "judged", limit=5)] == [(5, 5, 0, 0), (5, 5, 0, 0)]
        assert [counts(one) for one in run(ws, "told")] == [(12, 7, 5, 0)]
        assert [counts(one) for one in run(ws, "judged")] == [(12, 7, 5, 0)]
        assert quote(ws, ["judged"], Options(settings=SETTINGS))[0].already == 12
    finally:
        registry.annotators.remove("told")
        registry.annotators.remove("judged")


def test_new_captions_are_found_by_meaning_without_embedding_again(
    ws: Workspace, enter: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    broken = [False]

    def encoder(model: str, device: str) -> SimpleNamespace:
        if broken[0]:
            raise ModelError("the model is gone", model)
        return SimpleNamespace(encode_texts=lambda texts: np.full((len(texts), 4), 0.5, np.float32))

    def looks(work: Work) -> Result:
        seen = FrameVectors(
            episode_id=work.episode.episode_id,
            camera="front",
            seconds=np.array([0.0]),
            vectors=np.full((1, 4), 0.5, np.float32),
        )
        return Result(annotations=[fact(work, MARK, value={"space": "four", "frames": 1})], vectors=[seen])

    def enter_captions(name: str, text: str) -> None:
        maker = Maker(annotator="caption", version=name)
        made = each(lambda work: Result(annotations=[fact(work, maker, value={"text": text})]))
        enter(name, maker=maker, process=made, batch=4)

    space: dict[str, Json] = {"encoder": "four", "model": "m", "dim": 4, "created": "2026-11-21"}
    ws.annotations.put("spaces", {"four": space})
    registry.encoders.add("four", encoder)
    try:
        enter("looks", maker=MARK, process=each(looks), space="four")
        enter_captions("told", "it moves")
        run(ws, "looks")
        told = ws.tables.texts("four").state().rows
        assert told == len({episode.instruction for episode in ws.episodes()})
        run(ws, "told")
        assert ws.tables.texts("four").state().rows == told + 1
        broken[0] = True
        spaces._load.cache_clear()
        enter_captions("told2", "it stands")
        annotate(ws, ["told2"], Options(settings=ws.settings))
        assert "new captions cannot be found by meaning in four: the model is gone" in capsys.readouterr().err
        assert ws.tables.texts("four").state().rows == told + 1
    finally:
        registry.encoders.remove("four")
        spaces._load.cache_clear()


def test_annotators_of_one_run_share_one_decoding(
    ws: Workspace, enter: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ares.media import frames as media

    asked: list[int] = []
    real = media.frames_at

    def counting(ref: MediaRef, seconds: Sequence[float]) -> Any:
        asked.append(len(seconds))
        return real(ref, seconds)

    monkeypatch.setattr(media, "frames_at", counting)

    def looks(maker: Maker, seconds: list[float]) -> Answer:
        def answer(work: Work) -> Result:
            assert work.frames.at("front", seconds).shape == (len(seconds), 192, 192, 3)
            return Result(annotations=[fact(work, maker, value={})])

        return answer

    def entering(name: str, seconds: list[float]) -> None:
        maker = Maker(annotator=name, version="1")
        enter(
            name, maker=maker, process=each(looks(maker, seconds)), wants=lambda episode: {"front": seconds}
        )

    entering("one", [0.0, 1.0])
    entering("two", [1.0, 2.0])
    run(ws, "one", "two")
    assert asked == [3] * 12


def test_vectors_without_facts_are_removed_before_they_count_twice(
    ws: Workspace, enter: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = Maker(annotator="vectors", version="1")

    def embedded(work: Work) -> Result:
        rows = FrameVectors(
            episode_id=work.episode.episode_id,
            camera="front",
            seconds=np.array([0.0]),
            vectors=np.full((1, 4), 0.5, np.float32),
        )
        return Result(annotations=[fact(work, maker, value={})], vectors=[rows])

    enter("vectors", maker=maker, process=each(embedded), space="four")
    real = type(ws.annotations).append

    def broken(self: Any, facts: Sequence[Annotation]) -> int:
        raise OSError("the machine went down here")

    monkeypatch.setattr(type(ws.annotations), "append", broken)
    with pytest.raises(OSError, match="went down"):
        run(ws, "vectors")
    assert ws.tables.vectors("four").count() > 0
    monkeypatch.setattr(type(ws.annotations), "append", real)
    run(ws, "vectors")
    assert ws.tables.vectors("four").count() == 12
