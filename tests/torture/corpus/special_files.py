"""Files that are no ordinary files, names that no program expects, and files that nobody may read."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.torture.corpus.case import Case, Outcome, Site
from tests.torture.datasets import WRITERS

# The name of a file of each kind, by which a reader takes it for its own.
_NAMES = {
    "mcap": "x.mcap", "bag": "x.bag", "db3": "x.db3", "hdf5": "x.hdf5", "zarr": "x.zarr", "zarr.zip": "x.zarr.zip",
    "video": "x.mp4", "lerobot": "meta/info.json", "rlds": "features.json", "npz": "x.npz",
    "csv": "run/data.csv", "agibot": "proprio_stats/327/9/proprio_stats.h5",
}  # fmt: skip
_KINDS_WITH_FREE_NAMES = ("mcap", "bag", "hdf5", "video", "npz", "csv")


def cases() -> Iterator[Case]:
    """Every case."""
    producers: dict[str, Callable[[Path], None]] = {
        "FIFO": lambda path: os.mkfifo(path),
        "socket": _bind,
        "folder": lambda path: path.mkdir(),
        "link to /dev/zero": partial(_link, "/dev/zero"),
        "link to /dev/stdin": partial(_link, "/dev/stdin"),
        "link to /proc/self/mem": partial(_link, "/proc/self/mem"),
        "endless file of /proc": partial(_link, "/proc/kmsg"),
        "link to itself": lambda path: path.symlink_to(path.name),
        "link to nothing": partial(_link, "nothing"),
        "empty file": lambda path: path.touch(),
        "file of a file system without sizes": partial(_link, "/proc/self/status"),
    }
    for kind in _NAMES:
        for name, make in producers.items():
            yield _case(kind, f"{name} as {_NAMES[kind]}", partial(_plant, make, kind), "failed")
        yield _case(kind, "files without permission", partial(_forbid, kind, "files"))
        yield _case(kind, "folder without permission", partial(_forbid, kind, "folder"))
    names = {
        "a line in a name": "a\nb", "a name of 255 bytes": "", "a leading hyphen": "-rf", "escapes": "\x1b[2Jx",
        "surrogates": os.fsdecode(b"\xff\xfe"), "blanks": "  ", "percent": "%s%n{0}", "quotes": "a'b\"c;`d`$(e)",
        "right to left": "\u202egpj",
    }  # fmt: skip
    for kind in _KINDS_WITH_FREE_NAMES:
        for name, text in names.items():
            is_text = name != "surrogates"
            yield Case(
                group="names",
                name=name,
                kind=kind,
                plant=partial(_rename, text, kind),
                outcome="kept" if is_text else "failed",
                reason="" if is_text else "file name is not UTF-8",
            )


def _case(kind: str, name: str, plant: Callable[[Site], None], outcome: Outcome = "any") -> Case:
    return Case(group="special files", name=name, kind=kind, plant=plant, outcome=outcome)


def _plant(make: Callable[[Path], None], kind: str, site: Site) -> None:
    make(site.path(_NAMES[kind]))


def _link(target: str, path: Path) -> None:
    path.symlink_to(target)


def _bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        folder = os.open(path.parent, os.O_RDONLY)
        try:  # by the descriptor: an address is at most 107 bytes long
            server.bind(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)


def _forbid(kind: str, what: str, site: Site) -> None:
    folder = site.dataset(kind)
    if what == "folder":
        folder.chmod(0)
        return
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(0)


def _rename(name: str, kind: str, site: Site) -> None:
    WRITERS[kind](site.hostile, 1)
    (path,) = [path for path in site.hostile.iterdir() if path.suffix not in (".json", ".jsonl")]
    for described in site.hostile.glob("*.json*"):
        described.unlink()
    full = name or "n" * (255 - len(path.suffix))
    path.rename(site.hostile / f"{full}{path.suffix}")
