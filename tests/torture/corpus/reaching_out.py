"""Data that name files outside, addresses or code: links, paths, views and YAML tags.

Path templates, links of HDF5, pickles of Zarr and attached databases are in tests/ares/input and tests/ingest.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np

from tests.torture.corpus.case import Case, Outcome, Site, edit_json, json_of, write_demo


def cases() -> Iterator[Case]:
    """Every case."""
    table: list[tuple[str, str, Callable[[Site], None], Outcome]] = [
        ("hdf5", "text in external storage", _external_storage, "any"),
        ("hdf5", "virtual dataset of a file outside", _virtual_dataset, "any"),
        ("hdf5", "symbolic link to a file outside", partial(_link_outside, "hdf5"), "failed"),
        ("mcap", "symbolic link to a file outside", partial(_link_outside, "mcap"), "failed"),
        ("bag", "symbolic link to a file outside", partial(_link_outside, "bag"), "failed"),
        ("video", "symbolic link to a file outside", partial(_link_outside, "video"), "any"),
        ("video", "symbolic link to the folder above", _link_above, "any"),
        ("lerobot", "path template of a file outside", partial(_template, "../../outside/{episode_index}"), "any"),
        ("lerobot", "video template of a file outside", _video_template, "any"),
        ("lerobot", "symbolic link in place of tasks.jsonl", _tasks_link, "any"),
        ("video", "table that names a file outside", partial(_table, "../../outside/secret.mp4"), "failed"),
        ("video", "table that names /etc/passwd", partial(_table, "/etc/passwd"), "failed"),
        ("video", "table that names file:///etc/passwd", partial(_table, "file:///etc/passwd"), "failed"),
        ("video", "table that names an address", partial(_table, "URL/x.mp4"), "failed"),
        ("video", "playlist with the suffix mp4", _playlist, "failed"),
        ("video", "concat script with the suffix mp4", _concat, "failed"),
        ("db3", "metadata.yaml that names a file outside", partial(_yaml, "../../../outside/secret.txt"), "any"),
        ("db3", "metadata.yaml that names an absolute path", partial(_yaml, "/etc/passwd"), "any"),
        ("db3", "metadata.yaml that runs code", _yaml_code, "any"),
        ("db3", "view that attaches a file", _sqlite_view, "any"),
        ("zarr", "chunk that is a link to a file outside", _linked_chunk, "any"),
        ("zarr", "array that is a link to a folder outside", _linked_array, "any"),
        ("zarr.zip", "members named ../../x and /etc/x", _zip_names, "any"),
        ("rlds", "file template of a file outside", _rlds_template, "any"),
        ("rlds", "name of a file outside", _rlds_name, "any"),
    ]  # fmt: skip
    for kind, name, plant, outcome in table:
        yield Case(group="reaching out", name=name, kind=kind, plant=plant, outcome=outcome)


def _external_storage(site: Site) -> None:
    secret = site.outside / "secret.txt"
    size = secret.stat().st_size
    with write_demo(site) as file:
        group = file["data/demo_0"]
        kept = [(str(secret), 0, size)]
        group.create_dataset("instruction", (1,), f"S{size}", external=kept)
        group.create_dataset("obs/language", (1,), f"S{size}", external=kept)
        file.create_dataset("language_instruction", (1,), f"S{size}", external=kept)
        numbers = [(str(secret), 0, 28)]
        group.create_dataset("obs/robot0_gripper_qpos", (1, 7), "f4", external=numbers)


def _virtual_dataset(site: Site) -> None:
    import h5py  # type: ignore[import-untyped]

    with h5py.File(site.outside / "secret.hdf5", "w") as file:
        file["numbers"] = np.full((9, 7), 42.0, np.float32)
    layout = h5py.VirtualLayout((9, 7), np.float32)
    layout[:] = h5py.VirtualSource(str(site.outside / "secret.hdf5"), "numbers", (9, 7))
    with write_demo(site) as file:
        file["data/demo_0/obs"].create_virtual_dataset("robot0_eef_pos", layout)


def _link_outside(kind: str, site: Site) -> None:
    """Good data that lie outside of the dataset."""
    from tests.torture.datasets import WRITERS

    WRITERS[kind](site.outside, 1, "outer")
    for path in site.outside.glob("outer*"):
        site.path(path.name).symlink_to(path)


def _link_above(site: Site) -> None:
    site.path("again").symlink_to("..")


def _template(template: str, site: Site) -> None:
    folder = site.dataset("lerobot")
    edit_json(folder / "meta" / "info.json", data_path=template.replace("URL", site.url))


def _video_template(site: Site) -> None:
    from tests.ingest.lerobot.conftest import LeRobotFolders

    LeRobotFolders().write_video(site.outside / "secret.mp4")
    folder = site.dataset("lerobot")
    edit_json(folder / "meta" / "info.json", video_path="../../../outside/secret.mp4")


def _tasks_link(site: Site) -> None:
    folder = site.dataset("lerobot")
    tasks = site.outside / "tasks.jsonl"
    tasks.write_text(json.dumps({"task_index": 0, "task": site.secret}))
    (folder / "meta" / "tasks.jsonl").unlink()
    (folder / "meta" / "tasks.jsonl").symlink_to(tasks)


def _table(name: str, site: Site) -> None:
    from tests.ingest.lerobot.conftest import LeRobotFolders

    LeRobotFolders().write_video(site.outside / "secret.mp4")
    row = {"file": name.replace("URL", site.url), "instruction": "look there"}
    site.path("metadata.jsonl").write_text(json.dumps(row) + "\n")


def _playlist(site: Site) -> None:
    address = f"{site.url}/a.ts"
    text = f"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n{address}\n#EXTINF:10,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n"
    site.path("list.mp4").write_text(text)


def _concat(site: Site) -> None:
    site.path("list.mp4").write_text(f"ffconcat version 1.0\nfile {site.url}/a.mp4\nfile /etc/passwd\n")


def _metadata_yaml(site: Site) -> Path:
    site.dataset("db3")
    return site.hostile / "hostile_00" / "metadata.yaml"


def _yaml(name: str, site: Site) -> None:
    path = _metadata_yaml(site)
    (real,) = path.parent.glob("*.db3")
    path.write_text(path.read_text().replace(real.name, name))


def _yaml_code(site: Site) -> None:
    _metadata_yaml(site).write_text(f"a: !!python/object/apply:os.system ['touch {site.marker}']\n")


def _database(site: Site) -> Path:
    site.dataset("db3")
    (path,) = (site.hostile / "hostile_00").glob("*.db3")
    return path


def _sqlite_view(site: Site) -> None:
    """`messages` is a view that takes very long to read."""
    with closing(sqlite3.connect(_database(site))) as database:
        database.execute("ALTER TABLE messages RENAME TO kept")
        database.execute(
            "CREATE VIEW messages AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
            "SELECT i AS id, 1 AS topic_id, i AS timestamp, zeroblob(1000000) AS data FROM n"
        )
        database.commit()


def _zarr(site: Site) -> Path:
    site.dataset("zarr")
    return site.hostile / "hostile.zarr"


def _linked_chunk(site: Site) -> None:
    array = _zarr(site) / "data" / "action"
    edit_json(array / ".zarray", compressor=None)
    chunk = min(array.glob("[0-9]*"))
    chunk.unlink()
    chunk.symlink_to(site.outside / "secret.txt")


def _linked_array(site: Site) -> None:
    array = _zarr(site) / "data" / "action"
    array.rename(site.outside / "action")
    array.symlink_to(site.outside / "action")


def _zip_names(site: Site) -> None:
    import zipfile

    site.dataset("zarr.zip")
    with zipfile.ZipFile(site.hostile / "hostile.zarr.zip", "a") as archive:
        for name in ("../../../ran", str(site.marker), "data/../../../ran"):
            archive.writestr(name, "x")


def _rlds_template(site: Site) -> None:
    with json_of(site.dataset("rlds") / "dataset_info.json") as info:
        info["splits"][0]["filepathTemplate"] = "../../../outside/secret.txt"


def _rlds_name(site: Site) -> None:
    folder = site.dataset("rlds")
    edit_json(folder / "dataset_info.json", name="../../../../outside/secret")
