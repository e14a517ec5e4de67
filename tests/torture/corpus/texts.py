"""Texts in data that try a terminal, a page, a parser or a column: kept as text, and printed without effect."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from tests.torture.corpus.case import Case, Site, json_of, write_demo

TEXTS = {
    "terminal escapes": "\x1b[2J\x1b]0;owned\x07\x1b[31mred",
    "control characters": "".join(map(chr, range(1, 32))) + "\x7f\x9b",
    "NUL": "open\0the drawer",
    "HTML and JavaScript": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "right to left": "\u202eopen the drawer\u202c \u2066x",
    "lines": "open\nthe\r\ndrawer\u2028now",
    "SQL": "x'); DROP TABLE episodes; --",
    "markup of rich": "[bold red]x[/] [link=file:///etc/passwd]y[/link]",
    "formula": "=cmd|' /C calc'!A0",
    "10 MB": "open the drawer " * 655_360,
    "lone surrogate": "open \ud800 drawer",
}


def cases() -> Iterator[Case]:
    """Every text in every place that a format has for an instruction."""
    places: dict[str, Callable[[str, Site], None]] = {
        "video": _video, "lerobot": _lerobot, "mcap": _mcap, "rlds": _rlds, "hdf5": _hdf5,
    }  # fmt: skip
    for kind, plant in places.items():
        for name, text in TEXTS.items():
            if name == "lone surrogate" and kind not in ("video", "lerobot"):
                continue
            yield Case(group="texts", name=name, kind=kind, plant=partial(plant, text), outcome="kept")
    yield Case(group="texts", name="invalid UTF-8", kind="video", plant=_video_bytes)
    yield Case(group="texts", name="invalid UTF-8", kind="lerobot", plant=_lerobot_bytes)
    yield Case(group="texts", name="invalid UTF-8", kind="rlds", plant=_rlds_bytes)


def _video(text: str, site: Site) -> None:
    site.dataset("video")
    # A line of more than 16 MiB is not parsed.
    robot = text[:200]
    row = {"file": "hostile_000_front.mp4", "instruction": text, "robot": robot, robot: robot}
    site.path("metadata.jsonl").write_text(json.dumps(row) + "\n")


def _video_bytes(site: Site) -> None:
    site.dataset("video")
    row = b'{"file": "hostile_000_front.mp4", "instruction": "open \xff\xfe drawer"}\n'
    site.path("metadata.jsonl").write_bytes(row)


def _lerobot(text: str, site: Site) -> None:
    folder = site.dataset("lerobot")
    (folder / "meta" / "tasks.jsonl").write_text(json.dumps({"task_index": 0, "task": text}) + "\n")
    with json_of(folder / "meta" / "info.json") as info:
        info["robot_type"] = text[:200]
        info["features"][text[:200]] = {"dtype": "float32", "shape": [1], "names": [text[:200]]}


def _lerobot_bytes(site: Site) -> None:
    folder = site.dataset("lerobot")
    (folder / "meta" / "tasks.jsonl").write_bytes(b'{"task_index": 0, "task": "open \xff drawer"}\n')


def _mcap(text: str, site: Site) -> None:
    from tests.ingest.recordings.mcap.conftest import images, states, task, write

    entries = [task(text), *states(), *images(), task(text, topic=f"/{text[:100]}")]
    write(site.path("hostile.mcap"), entries)


def _rlds(text: str, site: Site) -> None:
    _write_rlds(text.encode(), site)


def _rlds_bytes(site: Site) -> None:
    _write_rlds(b"open \xff drawer", site)


def _write_rlds(text: bytes, site: Site) -> None:
    from tests.torture.corpus.bombs import rewrite_example

    rewrite_example(site.dataset("rlds"), {"steps/language_instruction": [text] * 4})


def _hdf5(text: str, site: Site) -> None:
    with write_demo(site) as file:
        group = file["data/demo_0"]
        raw = text.encode().replace(b"\0", b"\\0")
        group["language_instruction"] = np.bytes_(raw)
        if len(raw) < 60_000:
            file["data"].attrs["env_args"] = json.dumps({"env_name": text, "lang": text})
            group.attrs["language_instruction"] = raw
