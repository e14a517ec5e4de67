"""Data that name files outside, addresses or code: links, paths, views and YAML tags.

Path templates, tables of videos, playlists, storage and links of HDF5, linked chunks and pickles of Zarr, images that
a table names and attached databases are in tests/ares/input and tests/ingest.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from tests.torture.corpus.case import Case, Outcome, Site, edit_json, json_of


def cases() -> Iterator[Case]:
    """Every case."""
    table: list[tuple[str, str, Callable[[Site], None], Outcome]] = [
        ("hdf5", "symbolic link to a file outside", partial(_link_outside, "hdf5"), "failed"),
        ("mcap", "symbolic link to a file outside", partial(_link_outside, "mcap"), "failed"),
        ("bag", "symbolic link to a file outside", partial(_link_outside, "bag"), "failed"),
        ("video", "symbolic link to a file outside", partial(_link_outside, "video"), "any"),
        ("video", "symbolic link to the folder above", _link_above, "any"),
        ("lerobot", "symbolic link in place of tasks.jsonl", _tasks_link, "any"),
        ("db3", "metadata.yaml that names a file outside", partial(_yaml, "../../../outside/secret.txt"), "any"),
        ("db3", "metadata.yaml that names an absolute path", partial(_yaml, "/etc/passwd"), "any"),
        ("db3", "metadata.yaml that runs code", _yaml_code, "any"),
        ("db3", "view that attaches a file", _sqlite_view, "any"),
        ("zarr", "array that is a link to a folder outside", _linked_array, "any"),
        ("zarr.zip", "members named ../../x and /etc/x", _zip_names, "any"),
        ("rlds", "file template of a file outside", _rlds_template, "any"),
        ("rlds", "name of a file outside", _rlds_name, "any"),
    ]  # fmt: skip
    for kind, name, plant, outcome in table:
        yield Case(group="reaching out", name=name, kind=kind, plant=plant, outcome=outcome)


def _link_outside(kind: str, site: Site) -> None:
    """Good data that lie outside of the dataset."""
    from tests.torture.datasets import WRITERS

    WRITERS[kind](site.outside, 1, "outer")
    for path in site.outside.glob("outer*"):
        site.path(path.name).symlink_to(path)


def _link_above(site: Site) -> None:
    site.path("again").symlink_to("..")


def _tasks_link(site: Site) -> None:
    folder = site.dataset("lerobot")
    tasks = site.outside / "tasks.jsonl"
    tasks.write_text(json.dumps({"task_index": 0, "task": site.secret}))
    (folder / "meta" / "tasks.jsonl").unlink()
    (folder / "meta" / "tasks.jsonl").symlink_to(tasks)


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
