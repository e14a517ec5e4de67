"""The menu of the blind choice, gathered from a real workspace."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from annotators.grade.vocabulary import gather_phrases
from ares.episode import Episode, Record, Trajectory
from ares.workspace import Workspace


def _fill(ws: Workspace, episode: Episode, instructions: list[str]) -> None:
    trajectory = Trajectory(timestamps=np.arange(3) / 10)
    ws.stores.tables.episodes.add(
        [
            Record(
                episode=replace(
                    episode,
                    episode_id=f"{number:016x}",
                    key=str(number),
                    instruction=text,
                    instructions=(text,),
                ),
                trajectory=trajectory,
            )
            for number, text in enumerate(instructions)
        ]
    )


def test_different_actions_without_their_outcome(ws: Workspace, episodes: dict[str, Episode]) -> None:
    instructions = [
        "Close the drawer.",
        "close the  drawer",
        "fail to open the door",
        "",
        "wipe the table",
        "lift the lid",
    ]
    _fill(ws, episodes["drawer-close_000"], instructions)
    assert gather_phrases(ws.stores) == [
        "close the drawer",
        "lift the lid",
        "open the door",
        "wipe the table",
    ]


def test_captions_fill_in_only_where_instructions_are_few(
    ws: Workspace, episodes: dict[str, Episode]
) -> None:
    import pyarrow as pa

    _fill(ws, episodes["drawer-close_000"], ["close the drawer", "", "", ""])
    captions = pa.table(
        {
            "episode_id": [f"{number:016x}" for number in range(3)],
            "caption": ["close the drawer", "fail to open the door", "lift the lid"],
        }
    )
    ws.stores.tables.episodes.set_values(captions)
    assert gather_phrases(ws.stores) == ["close the drawer", "lift the lid", "open the door"]


def test_an_empty_workspace_has_no_menu(ws: Workspace) -> None:
    assert gather_phrases(ws.stores) == []
