"""A run annotates what is missing, once, counts all of it, and survives bad replies, dead servers and spent budgets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import pytest

from ares import registry
from ares.annotation import Annotation, Column, Cost, Producer
from ares.episode import Json, MediaRef
from ares.errors import AresError, ModelError, RequestError, ServerError
from ares.jobs import FAILURES, LocalEngine, PoolRequest
from ares.search import encoding as spaces
from ares.settings import Price, settings_from_environment
from ares.store import Stores
from ares.workspace import Workspace, open_workspace
from ares_annotators.base import FrameVectors, Options, Result, Work, new_annotation
from ares_annotators.models.doubles import HashEncoder
from tests.annotators.runs import annotate, estimate_cost

SETTINGS = settings_from_environment({})
MARK = Producer(
    annotator="mark", version="1", columns=(Column(name="mark", type="string", meaning="a mark"),)
)

Answer = Callable[[Work], Result | AresError]


@pytest.fixture
def ws(video_ws: Workspace) -> Workspace:
    return video_ws


def enter(name: str, **parts: Any) -> None:
    """Register an annotator."""
    annotator = SimpleNamespace(**parts)
    registry.annotators.add(name, lambda options, stores: annotator)


def annotate_mark(work: Work, producer: Producer = MARK, cost: Cost | None = None) -> Result:
    annotation = new_annotation(work, producer, value={"mark": work.episode.instruction}, cost=cost or Cost())
    return Result(annotations=[annotation])


def embed_first_frame(work: Work, producer: Producer) -> Result:
    frame_vectors = FrameVectors(
        episode_id=work.episode.episode_id,
        camera="front",
        seconds=np.array([0.0]),
        vectors=HashEncoder(8).encode_texts(["a frame"]),
    )
    return Result(annotations=[new_annotation(work, producer, value={})], vectors=[frame_vectors])


def batched(answer: Answer) -> Callable[[Sequence[Work]], list[Result | AresError]]:
    return lambda works: [answer(work) for work in works]


def run(ws: Workspace, *names: str, **arguments: Any) -> list[dict[str, Any]]:
    reports = annotate(ws.stores, names, Options(settings=ws.settings), quiet=True, **arguments)
    return [report.to_json() for report in reports]


def counts(document: dict[str, Any]) -> tuple[int, ...]:
    return tuple(document[name] for name in ("planned", "kept", "already", "failed"))


def test_again_does_nothing_and_another_producer_does_it_again(ws: Workspace) -> None:
    enter("mark", producer=MARK, process=batched(annotate_mark), batch_size=5)
    assert counts(run(ws, "mark")[0]) == (12, 12, 0, 0)
    assert counts(run(ws, "mark")[0]) == (12, 0, 12, 0)
    assert ws.stores.tables.episodes.count("mark IS NOT NULL") == 12
    other = Producer(annotator="mark", version="2", columns=MARK.columns)
    enter("mark2", producer=other, process=batched(lambda work: annotate_mark(work, other)))
    assert counts(run(ws, "mark2")[0]) == (12, 12, 0, 0)


class CountedEngine(LocalEngine):
    """Counts the pools that are open."""

    open_pools = 0

    def pool(self, request: PoolRequest[Any, Any]) -> Any:
        """As `LocalEngine.pool`."""
        self.open_pools += 1
        return super().pool(request)

    def close(self) -> None:
        """As `LocalEngine.close`."""
        self.open_pools = 0
        super().close()


def test_workers_of_annotators_that_are_done_end_before_those_begin_that_read_what_they_stored(
    ws: Workspace,
) -> None:
    engine, open_pools = CountedEngine(), []

    def count_pools(work: Work) -> Result:
        open_pools.append(engine.open_pools)
        return annotate_mark(work, reader)

    reader = Producer(annotator="reader", version="1")
    enter("mark", producer=MARK, process=batched(annotate_mark))
    enter("reader", producer=reader, process=batched(count_pools))
    factory: Any = registry.annotators.get("reader")
    factory.reads_stored = ("mark",)
    reports = run(ws, "reader", "mark", engine=engine)
    assert [counts(report) for report in reports] == [(12, 12, 0, 0)] * 2
    # Its own and that of decoding.
    assert set(open_pools) == {2} and engine.open_pools == 0


def test_a_filter_and_a_limit_choose_what_lacks_and_a_quote_is_for_the_same_episodes(ws: Workspace) -> None:
    enter("mark", producer=MARK, process=batched(annotate_mark))
    assert counts(run(ws, "mark", where="success", limit=4)[0])[1:] == (4, 0, 0)
    assert counts(run(ws, "mark", where="success")[0]) == (6, 2, 4, 0)
    (quote,) = estimate_cost(ws.stores, ["mark"], Options(settings=ws.settings), limit=3)
    planned, kept, already, failed = counts(run(ws, "mark", limit=3)[0])
    assert (quote.planned, quote.already, 3, 0) == (planned, already, kept, failed)
    assert counts(run(ws, "mark")[0]) == (12, 3, 9, 0)


def test_a_failure_is_counted_with_its_reason_and_tried_again(ws: Workspace) -> None:
    bad = {True}

    def answer(work: Work) -> Result | AresError:
        failing = bool(bad) and not work.episode.success
        return ModelError("reply is no JSON", "got 'x'") if failing else annotate_mark(work)

    enter("mark", producer=MARK, process=batched(answer), batch_size=4, workers=2)
    first = run(ws, "mark")[0]
    assert counts(first) == (12, 6, 0, 6)
    assert first["failures"][0]["reason"] == "reply is no JSON" and first["failures"][0]["count"] == 6
    assert len(list(ws.stores.annotations.find_documents(FAILURES))) == 6
    bad.clear()
    assert counts(run(ws, "mark")[0]) == (12, 6, 6, 0)
    assert list(ws.stores.annotations.find_documents(FAILURES)) == []


def test_a_dead_server_is_given_up_but_every_episode_is_counted(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ares_annotators.runner.annotator_run._MAX_REPEATED_FAILURES", 3)
    calls: list[str] = []

    def answer(work: Work) -> Result | AresError:
        calls.append(work.subject.id)
        return ModelError("server cannot be reached", "http://127.0.0.1:9")

    enter("mark", producer=MARK, process=batched(answer))
    document = run(ws, "mark")[0]
    assert counts(document) == (12, 0, 0, 3) and document["open"] == 9
    assert len(calls) == 3
    assert [row["reason"] for row in document["failures"]] == ["server cannot be reached"]
    assert document["ended_by"] == "failures" and "after 3 failures in a row" in document["end_reason"]
    assert len(list(ws.stores.annotations.find_documents(FAILURES))) == 3
    assert [task["failed"] for task in run(ws, "mark", retry_failed=True)] == [3], (
        "the others are no failures"
    )


def test_a_server_that_fails_in_changing_ways_is_given_up(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ares_annotators.runner.annotator_run._MAX_REPEATED_FAILURES", 4)
    numbers = count()

    def answer(work: Work) -> Result | AresError:
        number = next(numbers)
        status = "500" if number % 2 else "cannot be reached"
        error = ServerError(f"model server answered {status}", "http://127.0.0.1:9")
        return annotate_mark(work) if number == 3 else error

    enter("mark", producer=MARK, process=batched(answer))
    document = run(ws, "mark")[0]
    assert counts(document) == (12, 1, 0, 7) and document["open"] == 4, "one that answers counts again"
    assert document["ended_by"] == "server" and document["end_reason"].endswith(": http://127.0.0.1:9")


def test_annotators_that_have_their_model_work(ws: Workspace) -> None:
    def load(options: Options, stores: Stores) -> NoReturn:
        raise ModelError("the model is not on this machine", "Some/Model")

    def answer_not(producers: Sequence[Producer]) -> NoReturn:
        raise ServerError("the test call failed", "http://127.0.0.1:9")

    enter("mark", producer=MARK, process=batched(annotate_mark))
    other = Producer(annotator="asked", version="1", columns=())
    enter("asked", producer=other, process=batched(annotate_mark), preflight=answer_not)
    registry.annotators.add("absent", load)
    absent, mark, asked = run(ws, "absent", "mark", "asked")
    with pytest.raises(ModelError, match="not on this machine"):
        run(ws, "absent")
    assert counts(mark) == (12, 12, 0, 0)
    assert counts(absent) == counts(asked) == (12, 0, 0, 0) and absent["open"] == asked["open"] == 12
    assert (absent["ended_by"], asked["ended_by"]) == ("model", "server")
    assert absent["end_reason"] == "the model is not on this machine: Some/Model"
    assert not list(ws.stores.annotations.find_documents(FAILURES))


def test_without_work_no_model_is_loaded(ws: Workspace) -> None:
    """Where the filter matches nothing, or nothing has failed that could be tried; the request is still checked."""
    loaded: list[bool] = []

    def load(options: Options, stores: Stores) -> SimpleNamespace:
        loaded.append(options.load_models)
        return SimpleNamespace(producer=MARK, process=batched(annotate_mark))

    registry.annotators.add("loading", load)
    assert counts(run(ws, "loading", where="num_steps < 0")[0]) == (0, 0, 0, 0)
    assert counts(run(ws, "loading", retry_failed=True)[0]) == (0, 0, 0, 0)
    assert not any(loaded)
    with pytest.raises(RequestError, match="no annotator"):
        run(ws, "loading", "lodaing", where="num_steps < 0")
    run(ws, "loading", limit=1)
    assert any(loaded)


def test_a_budget_is_a_hard_stop(ws: Workspace) -> None:
    cost = Cost(calls=1, tokens_in=1000, tokens_out=10, usd=0.3)
    enter(
        "mark",
        producer=MARK,
        process=batched(lambda work: annotate_mark(work, cost=cost)),
        estimate=lambda episode: cost,
    )
    with pytest.raises(RequestError, match="ARES_PRICE"):
        run(ws, "mark", budget_usd=1.0)
    priced = open_workspace(ws.path, settings_from_environment({"ARES_PRICE": "1,2"}))
    assert priced.settings.price == Price(usd_per_mtok_in=1.0, usd_per_mtok_out=2.0)
    document = run(priced, "mark", budget_usd=1.0)[0]
    assert counts(document) == (12, 3, 0, 0) and document["open"] == 9
    assert document["usd"] == pytest.approx(0.9)
    assert document["ended_by"] == "budget" and not document["failures"]
    assert not list(ws.stores.annotations.find_documents(FAILURES))
    assert (document["calls"], document["tokens_in"]) == (3, 3000)


def test_a_quote_spends_nothing(ws: Workspace) -> None:
    before = ws.stores.annotations.last_sequence()
    cost = Cost(calls=1, tokens_in=100, tokens_out=10, usd=0.01)

    def never(works: Sequence[Work]) -> list[Result | AresError]:
        raise AssertionError("a quote must not call the model")

    enter(
        "mark",
        producer=MARK,
        process=never,
        estimate=lambda episode: cost,
        select_frames=lambda episode: {"front": [0.0, 1.0]},
    )
    (quote,) = estimate_cost(ws.stores, ["mark"], Options(settings=SETTINGS), "success")
    assert (quote.planned, quote.already, quote.frames, quote.cost.calls) == (6, 0, 12, 6)
    assert quote.cost.usd == pytest.approx(0.06)
    assert ws.stores.annotations.last_sequence() == before


def test_new_captions_are_found_by_meaning_without_embedding_again(
    ws: Workspace, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    broken = [False]

    def load_encoder(model: str, device: str) -> HashEncoder:
        if broken[0]:
            raise ModelError("the model is gone", model)
        return HashEncoder(8)

    def enter_captions(name: str, text: str) -> None:
        producer = Producer(annotator="caption", version=name, fills_segments=True)
        process = batched(
            lambda work: Result(annotations=[new_annotation(work, producer, value={"text": text})])
        )
        enter(name, producer=producer, process=process, batch_size=4)

    space: dict[str, Json] = {"encoder": "eight", "model": "m", "dim": 8, "created": "2026-11-21"}
    ws.stores.annotations.put_documents("spaces", {"eight": space})
    registry.encoders.add("eight", load_encoder)
    enter(
        "embedder", producer=MARK, process=batched(lambda work: embed_first_frame(work, MARK)), space="eight"
    )
    enter_captions("writer", "it moves")
    run(ws, "embedder")
    text_count = ws.stores.tables.texts("eight").state().rows
    assert text_count == len({episode.instruction for episode in ws.stores.tables.episodes.read()})
    run(ws, "writer")
    assert ws.stores.tables.texts("eight").state().rows == text_count + 1
    broken[0] = True
    spaces._load_cached.cache_clear()
    request.addfinalizer(spaces._load_cached.cache_clear)
    enter_captions("writer2", "it stands")
    annotate(ws.stores, ["writer2"], Options(settings=ws.settings))
    assert "new texts cannot be found by meaning in eight: the model is gone" in capsys.readouterr().err
    assert ws.stores.tables.texts("eight").state().rows == text_count + 1


def test_annotators_of_one_run_share_one_decoding(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    from ares import media

    decoded_counts: list[int] = []
    frames_at = media.frames_at

    def counting(ref: MediaRef, seconds: Sequence[float]) -> Any:
        decoded_counts.append(len(seconds))
        return frames_at(ref, seconds)

    monkeypatch.setattr(media, "frames_at", counting)

    def read_frames(producer: Producer, seconds: list[float]) -> Answer:
        def answer(work: Work) -> Result:
            assert work.frames.at("front", seconds).shape == (len(seconds), 192, 192, 3)
            return Result(annotations=[new_annotation(work, producer, value={})])

        return answer

    def enter_reader(name: str, seconds: list[float]) -> None:
        producer = Producer(annotator=name, version="1")
        enter(
            name,
            producer=producer,
            process=batched(read_frames(producer, seconds)),
            select_frames=lambda episode: {"front": seconds},
        )

    enter_reader("first", [0.0, 1.0])
    enter_reader("second", [1.0, 2.0])
    run(ws, "first", "second")
    assert decoded_counts == [3] * 12


def test_vectors_without_facts_are_removed_before_they_count_twice(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = Producer(annotator="vectors", version="1")

    enter(
        "vectors",
        producer=producer,
        process=batched(lambda work: embed_first_frame(work, producer)),
        space="four",
    )
    append = type(ws.stores.annotations).append

    def broken(self: Any, annotations: Sequence[Annotation]) -> int:
        raise OSError("the machine went down here")

    monkeypatch.setattr(type(ws.stores.annotations), "append", broken)
    with pytest.raises(OSError, match="went down"):
        run(ws, "vectors")
    assert ws.stores.tables.vectors("four").count() > 0
    monkeypatch.setattr(type(ws.stores.annotations), "append", append)
    run(ws, "vectors")
    assert ws.stores.tables.vectors("four").count() == 12
