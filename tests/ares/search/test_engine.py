"""Searches by text, image and episode, with filters, and the errors of searches that cannot be done."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import av
import pytest
from PIL import Image

from annotators.base import Options
from ares.errors import PluginError, RequestError
from ares.search import Query, find_embedding_space
from ares.search.encoding import load_encoder
from ares.search.rankers.base import CheckedRanker
from ares.settings import settings_from_environment
from ares.workspace import Workspace, open_workspace
from ingest.base import SourceOptions
from tests.annotators.runs import annotate
from tests.ingesting import ingest_paths


@pytest.fixture(scope="module")
def ws(demo_samples: Path, reference_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    clip = f"local-dir:{reference_models / 'reference-clip'}"
    ws = open_workspace(
        str(tmp_path_factory.mktemp("search") / "w"), settings_from_environment({"ARES_EMBED_MODEL": clip})
    )
    ingest_paths(ws.stores, [str(demo_samples / "video")], quiet=True)
    annotate(ws.stores, ["embed"], Options(settings=ws.settings), quiet=True)
    return ws


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("close the green drawer", "drawer-close"),
        ("basketball into the hoop", "basketball"),
        ("turn the faucet", "faucet-open"),
        ("put the blue cube on the shelf", "shelf-place"),
    ],
)
def test_text_finds_the_episodes_of_its_task_first(ws: Workspace, text: str, key: str) -> None:
    hits = ws.search(text, limit=4)
    first = {ws.stores.tables.episodes.get_episode(hit.episode_id).key.rsplit("_", 1)[0] for hit in hits[:2]}
    assert first == {key}
    assert [hit.rank_value for hit in hits] == sorted((hit.rank_value for hit in hits), reverse=True)
    assert ws.search(text, limit=4) == hits


def test_by_frames_gives_a_camera_and_a_second_inside_the_episode(ws: Workspace) -> None:
    for hit in ws.search("turn the faucet", by="frames", limit=12):
        episode = ws.stores.tables.episodes.get_episode(hit.episode_id)
        assert hit.camera in {camera.name for camera in episode.cameras}
        assert 0 <= hit.seconds < episode.duration_seconds
        camera, second, score = hit.moments[0]
        assert (camera, second) == (hit.camera, hit.seconds) and score == pytest.approx(
            hit.rank_value, abs=1e-4
        )
        assert [score for *_, score in hit.moments] == sorted(
            (moment[2] for moment in hit.moments), reverse=True
        )
        seconds = sorted(moment_second for _, moment_second, _ in hit.moments)
        assert all(later - earlier > 1.0 for earlier, later in pairwise(seconds))


def test_a_filter_is_applied_before_the_ranking(ws: Workspace) -> None:
    hits = ws.search("turn the faucet", where="key LIKE 'basketball%'", limit=20)
    assert len(hits) == 2
    assert ws.search("turn the faucet", where="num_steps < 0") == []


def test_a_filter_that_matches_nothing_loads_no_model(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError(arguments)

    monkeypatch.setattr("ares.search.rankers.visual.VisualRanker.encode", refuse)
    assert ws.search("turn the faucet", by="frames", where="num_steps < 0") == []
    with pytest.raises(PluginError, match="AssertionError"):
        ws.search("turn the faucet", by="frames", where="num_steps > 0")


@pytest.mark.parametrize("min_score", [None, 0.1])
def test_each_way_encodes_a_query_once(
    ws: Workspace, min_score: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def count_calls(ranker: CheckedRanker, query: Query) -> Sequence[object]:
        calls.append(ranker._label)
        return encode(ranker, query)

    encode = CheckedRanker.encode
    monkeypatch.setattr(CheckedRanker, "encode", count_calls)
    Image.new("RGB", (32, 32)).save(tmp_path / "black.png")
    assert ws.search("faucet", image=str(tmp_path / "black.png"), min_score=min_score)
    assert len(calls) == len(set(calls)) == 3


def test_an_image_finds_its_own_episode(ws: Workspace, demo_samples: Path, tmp_path: Path) -> None:
    with av.open(str(demo_samples / "video" / "videos" / "shelf-place_000_front.mp4")) as video:
        frame = next(frame for number, frame in enumerate(video.decode(video=0)) if number == 40)
    Image.fromarray(frame.to_ndarray(format="rgb24")).save(tmp_path / "frame.png")
    hits = ws.search(image=str(tmp_path / "frame.png"), limit=2)
    assert {ws.stores.tables.episodes.get_episode(hit.episode_id).key for hit in hits} == {
        "shelf-place_000",
        "shelf-place_009",
    }
    with pytest.raises(RequestError, match="the file is no image"):
        ws.search(image=str(demo_samples / "video" / "metadata.jsonl"))


def test_like_an_episode_comes_the_other_of_its_task_and_never_itself(ws: Workspace) -> None:
    (episode_id,) = ws.stores.tables.episodes.read_columns(["episode_id"], "key = 'drawer-close_000'")[
        "episode_id"
    ].to_pylist()
    hits = ws.search(like=episode_id, limit=5)
    assert ws.stores.tables.episodes.get_episode(hits[0].episode_id).key == "drawer-close_009"
    assert episode_id not in {hit.episode_id for hit in hits}


def test_a_frame_of_an_episode_finds_others_and_never_itself(ws: Workspace) -> None:
    (episode_id,) = ws.stores.tables.episodes.read_columns(["episode_id"], "key = 'shelf-place_000'")[
        "episode_id"
    ].to_pylist()
    hits = ws.search(image=f"{episode_id}/front@2.0", limit=3)
    assert ws.stores.tables.episodes.get_episode(hits[0].episode_id).key == "shelf-place_009"
    assert episode_id not in {hit.episode_id for hit in hits}
    with pytest.raises(RequestError, match="no camera 'back'"):
        ws.search(image=f"{episode_id}/back@2.0")


def test_by_meaning_texts_are_ranked_as_their_vectors_and_a_filter_loses_none(ws: Workspace) -> None:
    text = "shut the tray of the cabinet"
    hits = ws.search(text, by="meaning", limit=12)
    texts = sorted({episode.instruction for episode in ws.stores.tables.episodes.read()})
    model = load_encoder(find_embedding_space(ws.stores))
    scores = dict(zip(texts, model.encode_texts(texts) @ model.encode_texts([text])[0], strict=True))
    assert len(hits) == 12
    assert [hit.rank_value for hit in hits] == pytest.approx(
        [scores[hit.instruction] for hit in hits], abs=1e-4
    )
    assert hits[0].instruction == max(texts, key=lambda text: scores[text])
    assert [hit.rank_value for hit in hits] == sorted((hit.rank_value for hit in hits), reverse=True)
    narrow = ws.search(text, by="meaning", where="key LIKE 'basketball%'")
    assert [
        (hit.episode_id, hit.rank_value)
        for hit in hits
        if ws.stores.tables.episodes.get_episode(hit.episode_id).key.startswith("basketball")
    ] == [(hit.episode_id, hit.rank_value) for hit in narrow]
    # A filter changes no score, and none is a share of the best of its answer.
    scores = {hit.episode_id: hit.score for hit in hits}
    assert all(hit.score is not None and scores.get(hit.episode_id, hit.score) == hit.score for hit in narrow)


def test_what_is_asked_takes_no_place_of_an_answer(ws: Workspace) -> None:
    """One result is wanted, and both of the nearest two were asked themselves."""
    first, second = ws.stores.tables.episodes.read_columns(["episode_id"], "key LIKE 'drawer-close%'")[
        "episode_id"
    ].to_pylist()
    (hit,) = ws.search(like=first, image=f"{second}/front@1.0", by="frames", limit=1)
    assert hit.episode_id not in {first, second}


def test_a_text_and_an_episode_are_answered_together(ws: Workspace) -> None:
    (drawer,) = ws.stores.tables.episodes.read_columns(["episode_id"], "key = 'drawer-close_000'")[
        "episode_id"
    ].to_pylist()
    hits = ws.search("basketball into the hoop", like=drawer, limit=6)
    tasks = {ws.stores.tables.episodes.get_episode(hit.episode_id).key.rsplit("_", 1)[0] for hit in hits}
    assert {"basketball", "drawer-close"} <= tasks


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "a text, an image or an episode"),
        (
            {"text": "a", "by": "looks"},
            "no ranker 'looks': there are: action, captions, frames, meaning, state",
        ),
        ({"text": "a", "by": "frames=0"}, "above 0"),
        ({"text": "a", "by": "frames=much"}, "above 0"),
        ({"text": "a", "by": "frames,captions,frames=2"}, "given once"),
        ({"text": "a", "by": "state"}, "text cannot be compared by state"),
        ({"image": "a.png", "by": "captions"}, "image cannot be compared by captions"),
        ({"text": "a", "limit": 0}, "limit must be at least 1"),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused(
    ws: Workspace, options: dict[str, object], message: str
) -> None:
    with pytest.raises(RequestError, match=message):
        ws.search(**options)  # type: ignore[arg-type]


@pytest.mark.slow
def test_motion_finds_the_same_task_across_what_was_recorded_of_one_robot(
    demo_samples: Path, tmp_path: Path
) -> None:
    ws = open_workspace(str(tmp_path / "w"), settings_from_environment({}))
    ingest_paths(ws.stores, [str(demo_samples / "rlds")], SourceOptions(rate_hz=10.0), quiet=True)
    ingest_paths(
        ws.stores, [str(demo_samples / "rlds")], SourceOptions(rate_hz=10.0, dataset="again"), quiet=True
    )
    first = next(ws.stores.tables.episodes.read("dataset <> 'again'"))
    with pytest.raises(RequestError, match="annotate motion"):
        ws.search(like=first.episode_id, by="state")
    annotate(ws.stores, ["motion"], Options(settings=ws.settings), quiet=True)
    for by in ("state", "action", "state=2,action"):
        best = ws.search(like=first.episode_id, by=by, limit=3)
        assert (best[0].dataset, best[0].instruction) == ("again", first.instruction)
        assert best[0].rank_value > best[1].rank_value
    filtered = ws.search(like=first.episode_id, by="state", where="success", limit=30)
    assert (
        all(ws.stores.tables.episodes.get_episode(hit.episode_id).success for hit in filtered)
        and len(filtered) < 23
    )


def test_without_vectors_words_still_answer(demo_samples: Path, tmp_path: Path) -> None:
    ws = open_workspace(str(tmp_path / "w"), settings_from_environment({}))
    ingest_paths(ws.stores, [str(demo_samples / "video")], quiet=True)
    hits = ws.search("the drawer")
    assert len(hits) == 2 and all("drawer" in hit.instruction and hit.camera == "" for hit in hits)
    with pytest.raises(RequestError, match="annotate embed"):
        ws.search("green drawer", by="frames")
