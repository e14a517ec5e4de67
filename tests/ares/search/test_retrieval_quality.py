"""Share of queries, written by people before they saw any result, that have a correct episode in the top 3."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ares.settings import settings_from_environment
from ares.workspace import Workspace, open_workspace
from ares_annotators.base import Options
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
@pytest.mark.parametrize("by", ["frames", "captions", ""])
def test_simulated_tasks_by_looks_words_and_both(simulated: Workspace, by: str) -> None:
    hits = [
        any(
            answer in simulated.episodes[hit.episode_id].key
            for hit in simulated.search(query, by=by, limit=3)
        )
        for query, answer in META_WORLD.items()
    ]
    assert sum(hits) / len(hits) >= 0.9
