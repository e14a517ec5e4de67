"""The menu of the blind choice, gathered from a real workspace."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from annotators.grade.vocabulary import read_menu
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
    assert read_menu(ws.stores) == [
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
    assert read_menu(ws.stores) == ["close the drawer", "lift the lid", "open the door"]


def test_a_menu_is_kept_until_the_instructions_change(ws: Workspace, episodes: dict[str, Episode]) -> None:
    _fill(ws, episodes["drawer-close_000"], ["close the drawer"])
    ids = sorted(ws.stores.tables.episodes.ids())
    assert read_menu(ws.stores) == ["close the drawer"]
    _set_captions(ws, ids, ["lift the lid"])
    assert read_menu(ws.stores) == ["close the drawer", "lift the lid"]
    _fill(ws, episodes["drawer-close_000"], ["close the drawer", "open it", "wipe it", "turn it"])
    menu = read_menu(ws.stores)
    assert menu == ["close the drawer", "open it", "turn it", "wipe it"]
    _set_captions(ws, ids, ["push the lid"])
    assert read_menu(ws.stores) == menu


def _set_captions(ws: Workspace, ids: list[str], captions: list[str]) -> None:
    import pyarrow as pa

    ws.stores.tables.episodes.set_values(pa.table({"episode_id": ids, "caption": captions}))


def test_an_empty_workspace_has_no_menu(ws: Workspace) -> None:
    assert read_menu(ws.stores) == []
