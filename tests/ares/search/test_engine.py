"""Searches by text, image and episode, with filters, and the errors of searches that cannot be done."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import pytest
from PIL import Image

from ares.errors import PluginError, RequestError
from ares.search import Query, find_embedding_space
from ares.search.encoding import load_encoder
from ares.search.rankers.base import CheckedRanker
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from ares_annotators.base import Options
from ares_ingest.base import SourceOptions
from tests.annotators.runs import annotate
from tests.ingesting import ingest_paths
from tests.workspaces import copy_workspace


@pytest.fixture(scope="module")
def ws(video_folder: Path, reference_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The videos of the sample, embedded by the reference model."""
    folder = copy_workspace(video_folder, tmp_path_factory.mktemp("search") / "w")
    ws = open_workspace(str(folder), Settings(embed_model=f"local-dir:{reference_models / 'reference-clip'}"))
    annotate(ws.stores, ["embed"], Options(settings=ws.settings), quiet=True)
    return ws


def _id(ws: Workspace, key: str) -> str:
    (episode_id,) = ws.stores.tables.episodes.ids(f"key = '{key}'")
    return episode_id


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("close the green drawer", "drawer-close"),
        ("basketball into the hoop", "basketball"),
        ("turn the faucet", "faucet-open"),
        ("put the blue cube on the shelf", "shelf-place"),
    ],
)
def test_text_finds_the_episodes_of_its_task_first(ws: Workspace, text: str, task: str) -> None:
    hits = ws.search(text, limit=4)
    assert {hit.key.rsplit("_", 1)[0] for hit in hits[:2]} == {task}
    assert [hit.rank_value for hit in hits] == sorted((hit.rank_value for hit in hits), reverse=True)
    assert ws.search(text, limit=4) == hits


def test_by_frames_gives_a_camera_and_a_second_inside_the_episode(ws: Workspace) -> None:
    for hit in ws.search("turn the faucet", by="frames", limit=12):
        episode = ws.stores.tables.episodes.get_episode(hit.episode_id)
        assert hit.camera in {camera.name for camera in episode.cameras}
        assert 0 <= hit.seconds < episode.duration_seconds
        camera, second, score = hit.moments[0]
        assert (camera, second) == (hit.camera, hit.seconds)
        assert score == pytest.approx(hit.rank_value, abs=1e-4)
        scores = [score for *_, score in hit.moments]
        assert scores == sorted(scores, reverse=True)
        seconds = sorted(second for _, second, _ in hit.moments)
        assert all(later - earlier > 1.0 for earlier, later in pairwise(seconds))


def test_a_filter_is_applied_before_the_ranking_and_loads_no_model_where_it_leaves_nothing(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError(arguments)

    assert len(ws.search("turn the faucet", where="key LIKE 'basketball%'", limit=20)) == 2
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
    assert {hit.key for hit in hits} == {"shelf-place_000", "shelf-place_009"}
    with pytest.raises(RequestError, match="the file is no image"):
        ws.search(image=str(demo_samples / "video" / "metadata.jsonl"))


@pytest.mark.parametrize("asked", ["episode", "frame"])
def test_an_episode_or_its_frame_finds_the_other_of_its_task_and_never_itself(
    ws: Workspace, asked: str
) -> None:
    own = _id(ws, "shelf-place_000")
    hits = (
        ws.search(like=own, limit=5) if asked == "episode" else ws.search(image=f"{own}/front@2.0", limit=5)
    )
    assert hits[0].key == "shelf-place_009"
    assert own not in {hit.episode_id for hit in hits}


def test_by_meaning_texts_are_ranked_as_their_vectors_and_a_filter_changes_no_score(ws: Workspace) -> None:
    text = "shut the tray of the cabinet"
    hits = ws.search(text, by="meaning", limit=12)
    texts = sorted({episode.instruction for episode in ws.stores.tables.episodes.read()})
    model = load_encoder(find_embedding_space(ws.stores))
    scores = dict(zip(texts, model.encode_texts(texts) @ model.encode_texts([text])[0], strict=True))
    assert len(hits) == 12 and hits[0].instruction == max(texts, key=lambda text: scores[text])
    expected = [scores[hit.instruction] for hit in hits]
    assert [hit.rank_value for hit in hits] == pytest.approx(expected, abs=1e-4)
    narrow = ws.search(text, by="meaning", where="key LIKE 'basketball%'")
    of_task = [hit for hit in hits if hit.key.startswith("basketball")]
    assert [(hit.key, hit.rank_value) for hit in narrow] == [(hit.key, hit.rank_value) for hit in of_task]
    shown = {hit.episode_id: hit.score for hit in hits}
    assert all(hit.score is not None and shown.get(hit.episode_id, hit.score) == hit.score for hit in narrow)


def test_what_is_asked_takes_no_place_of_an_answer(ws: Workspace) -> None:
    """One result is wanted, and both of the nearest two were asked themselves."""
    first, second = _id(ws, "drawer-close_000"), _id(ws, "drawer-close_009")
    (hit,) = ws.search(like=first, image=f"{second}/front@1.0", by="frames", limit=1)
    assert hit.episode_id not in {first, second}


def test_a_text_and_an_episode_are_answered_together(ws: Workspace) -> None:
    hits = ws.search("basketball into the hoop", like=_id(ws, "drawer-close_000"), limit=6)
    assert {"basketball", "drawer-close"} <= {hit.key.rsplit("_", 1)[0] for hit in hits}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "a text, an image or an episode"),
        ({"text": "a", "by": "looks"}, "no ranker 'looks': there are: action, captions, frames, meaning"),
        ({"text": "a", "by": "frames=0"}, "above 0"),
        ({"text": "a", "by": "frames=much"}, "above 0"),
        ({"text": "a", "by": "frames,captions,frames=2"}, "given once"),
        ({"text": "a", "by": "state"}, "text cannot be compared by state"),
        ({"image": "a.png", "by": "captions"}, "image cannot be compared by captions"),
        ({"image": "{first}/back@2.0"}, "no camera 'back'"),
        ({"text": "a", "limit": 0}, "limit must be at least 1"),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused(
    ws: Workspace, options: dict[str, Any], message: str
) -> None:
    if "image" in options:
        options = options | {"image": options["image"].format(first=_id(ws, "drawer-close_000"))}
    with pytest.raises(RequestError, match=message):
        ws.search(**options)


@pytest.mark.slow
def test_motion_finds_the_same_task_across_what_was_recorded_of_one_robot(
    ws: Workspace, demo_samples: Path, tmp_path: Path
) -> None:
    with open_workspace(str(tmp_path / "w"), ws.settings, create=True) as robots:
        for dataset in ("", "again"):
            options = SourceOptions(rate_hz=10.0, dataset=dataset)
            ingest_paths(robots.stores, [str(demo_samples / "rlds")], options, quiet=True)
        first = next(robots.stores.tables.episodes.read("dataset <> 'again'"))
        with pytest.raises(RequestError, match="annotate motion"):
            robots.search(like=first.episode_id, by="state")
        annotate(robots.stores, ["motion"], Options(settings=robots.settings), quiet=True)
        for by in ("state", "action", "state=2,action"):
            best, second, *_ = robots.search(like=first.episode_id, by=by, limit=3, copies=True)
            assert (best.dataset, best.instruction) == ("again", first.instruction)
            assert best.rank_value > second.rank_value
        successes = robots.stores.tables.episodes.ids("success")
        filtered = robots.search(like=first.episode_id, by="state", where="success", limit=30, copies=True)
        assert {hit.episode_id for hit in filtered} == successes - {first.episode_id}


def test_without_vectors_words_still_answer(video_ws: Workspace) -> None:
    hits = video_ws.search("the drawer")
    assert len(hits) == 2 and all("drawer" in hit.instruction and hit.camera == "" for hit in hits)
    with pytest.raises(RequestError, match="annotate embed"):
        video_ws.search("green drawer", by="frames")
