"""Hostile npz files, folders of tables with images, and folders of AgiBot World."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.torture.corpus.case import Case, Site, json_of

_HUGE = 10**12
_TASK = "hostile_agibot/task_info/task_327.json"
_PROPRIO = "hostile_agibot/proprio_stats/327/1000/proprio_stats.h5"


def cases() -> Iterator[Case]:
    """Every case."""
    table: list[tuple[str, str, str, Callable[[Site], None]]] = [
        ("bombs", "csv", "field of 100 MB", partial(_csv_text, "x" * 100_000_000)),
        ("bombs", "csv", "picture beside a table", _csv_picture),
        ("bombs", "agibot", "gzip dataset of 8 GB", _agibot_bomb),
        ("lies", "npz", "NaN and infinite rate", partial(_describe_npz, fps=math.inf)),
        ("lies", "csv", "NaN stamps", partial(_csv_column, "timestamp", [math.nan] * 10)),
        ("lies", "csv", "falling stamps", partial(_csv_column, "timestamp", list(range(10, 0, -1)))),
        ("lies", "csv", "stamps of 1e300", partial(_csv_column, "timestamp", [1e300 * n for n in range(10)])),
        ("lies", "csv", "10,000 columns", _csv_columns),
        ("lies", "agibot", "episode number 10**18", partial(_agibot_task, "episode_id", 10**18)),
        ("lies", "agibot", "subtask of 10**12 frames", _agibot_subtask),
        ("lies", "agibot", "stamps of 2**62", partial(_agibot_array, "timestamp", np.full(12, 2**62))),
        ("lies", "agibot", "10**12 steps that were never written", _agibot_unwritten),
        ("reaching out", "npz", "members named ../../x and /etc/x", _npz_names),
        ("reaching out", "agibot", "link in place of a video", _agibot_video_link),
        ("texts", "csv", "escapes, formula and NUL", partial(_csv_text, "\x1b[2J\0=cmd|' /C calc'!A0\u202e")),
        ("texts", "agibot", "terminal escapes", partial(_agibot_task, "task_name", "\x1b[2J\x9b31m\u202ered")),
    ]  # fmt: skip
    for group, kind, name, plant in table:
        yield Case(group=group, name=name, kind=kind, plant=plant)


def _describe_npz(site: Site, **described: Any) -> None:
    site.dataset("npz")
    site.path("hostile_00.json").write_text(json.dumps(described))
    site.path("hostile_01.json").write_text('{"fps": NaN, "instruction": 7, "success": "maybe"}')


def _npz_names(site: Site) -> None:
    site.dataset("npz")
    with zipfile.ZipFile(site.path("hostile_00.npz"), "a") as archive:
        for name in ("../../../ran.npy", f"{site.marker}.npy"):
            archive.writestr(name, "x")


def _csv_column(name: str, values: Sequence[Any], site: Site) -> None:
    from tests.ingest.image_folders.conftest import write_episode

    write_episode(site.path("hostile_00"), {name: values})


def _csv_text(text: str, site: Site) -> None:
    from tests.ingest.image_folders.conftest import STEPS

    _csv_column("operator", [text, *["x"] * (STEPS - 1)], site)


def _csv_columns(site: Site) -> None:
    from tests.ingest.image_folders.conftest import STEPS, write_episode

    write_episode(site.path("hostile_00"), {f"joint_{number}": [number] * STEPS for number in range(10_000)})


def _csv_picture(site: Site) -> None:
    from tests.torture.corpus.bombs import png_bomb

    site.dataset("csv", 1)
    for path in (site.hostile / "hostile_00" / "images" / "front").iterdir():
        path.write_bytes(png_bomb())


def _agibot(site: Site, path: str) -> Path:
    site.dataset("agibot")
    return site.hostile / path


def _agibot_task(key: str, value: object, site: Site) -> None:
    with json_of(_agibot(site, _TASK)) as rows:
        rows[0][key] = value


def _agibot_subtask(site: Site) -> None:
    with json_of(_agibot(site, _TASK)) as rows:
        rows[0]["label_info"]["action_config"][0].update(start_frame=-_HUGE, end_frame=_HUGE)


def _agibot_array(key: str, values: Any, site: Site) -> None:
    import h5py  # type: ignore[import-untyped]

    with h5py.File(_agibot(site, _PROPRIO), "a") as file:
        del file[key]
        file[key] = values


def _agibot_unwritten(site: Site) -> None:
    import h5py

    with h5py.File(_agibot(site, _PROPRIO), "a") as file:
        for key in ("timestamp", "state/joint/position"):
            columns = file[key].shape[1:]
            kind = file[key].dtype
            del file[key]
            file.create_dataset(key, (_HUGE, *columns), kind, chunks=(1_000, *columns))


def _agibot_bomb(site: Site) -> None:
    import h5py

    with h5py.File(_agibot(site, _PROPRIO), "a") as file:
        del file["state/joint/position"]
        packed = file.create_dataset(
            "state/joint/position", (72_000_000, 14), "f8", chunks=(100_000, 14), compression="gzip"
        )
        packed[:100_000] = 0


def _agibot_video_link(site: Site) -> None:
    video = _agibot(site, "hostile_agibot/observations/327/1000/videos/head_color.mp4")
    video.rename(site.outside / "head.mp4")
    video.symlink_to(site.outside / "head.mp4")
