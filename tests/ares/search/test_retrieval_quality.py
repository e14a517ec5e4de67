"""Share of queries, written by people before they saw any result, that have a correct episode in the top 3."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from annotators.base import Options
from ares.settings import settings_from_environment
from ares.workspace import Workspace, open_workspace
from tests.annotators.runs import annotate
from tests.ingesting import ingest_paths

# Paraphrases of instructions, for simulated tasks on which the reference CLIP was trained.
META_WORLD = {
    "dunk the ball in the basket": "basketball",
    "put the lid on the box": "box-close",
    "the red button is behind a wall": "button-press-wall",
    "push the button from above": "button-press-topdown",
    "take the mug out of the coffee machine": "coffee-pull",
    "rotate the blue dial": "dial-turn",
    "shut the safe": "door-close",
    "open the safe": "door-open",
    "shut the drawer": "drawer-close",
    "close the faucet": "faucet-close",
    "hit the nail with the hammer": "hammer",
    "push the handle down": "handle-press",
    "pull the handle up": "handle-pull",
    "lift the lever": "lever-pull",
    "unplug the peg": "peg-unplug-side",
    "slide the plate into the goal": "plate-slide",
    "push the thermos with a stick": "stick-push",
    "kick the soccer ball into the goal": "soccer",
    "sweep the cube into the hole": "sweep-into",
    "open the window": "window-open",
}
# Real robots, on which no reference model was trained: only the words can match.
OPEN_VLA = {
    "eggplant pot": "put eggplant into pot",
    "corn on a plate": "corn",
    "coke can": "coke can",
    "the bear is knocked over": "knock brown bear over",
    "towel over a bowl": "cover white bowl with towel",
    "salt shaker": "salt shaker",
    "battery": "battery",
    "taylor swift": "taylor swift",
    "pour corn": "pour corn into pot",
    "flip the pot": "flip pot upright",
}


def _hit_rate(
    ws: Workspace, queries: dict[str, str], by: str, describe_episode: Callable[[str], str]
) -> float:
    hits = [
        any(answer in describe_episode(hit.episode_id) for hit in ws.search(query, by=by, limit=3))
        for query, answer in queries.items()
    ]
    return sum(hits) / len(hits)


@pytest.fixture(scope="module")
def simulated(
    shared_data: Path, reference_models: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Workspace]:
    clip = f"local-dir:{reference_models / 'reference-clip'}"
    path = str(tmp_path_factory.mktemp("held") / "w")
    ws = open_workspace(path, settings_from_environment({"ARES_EMBED_MODEL": clip}))
    ingest_paths(ws.stores, [str(shared_data / "metaworld_video")], quiet=True)
    annotate(ws.stores, ["embed"], Options(settings=ws.settings), quiet=True)
    yield ws
    ws.close()


@pytest.mark.nightly
@pytest.mark.parametrize(("by", "minimum"), [("frames", 0.9), ("captions", 0.9), ("", 0.9)])
def test_simulated_tasks_by_looks_words_and_both(simulated: Workspace, by: str, minimum: float) -> None:
    hit_rate = _hit_rate(simulated, META_WORLD, by, lambda episode_id: simulated.episodes[episode_id].key)
    assert hit_rate >= minimum


@pytest.mark.slow
def test_real_rollouts_by_their_words(shared_data: Path, tmp_path: Path) -> None:
    ws = open_workspace(str(tmp_path / "w"), settings_from_environment({}))
    ingest_paths(ws.stores, [str(shared_data / "openvla_rollout_videos")], quiet=True)
    assert (
        _hit_rate(
            ws,
            OPEN_VLA,
            "captions",
            lambda episode_id: ws.stores.tables.episodes.get_episode(episode_id).instruction,
        )
        == 1.0
    )
