"""`ares set lock` and `ares set rebuild`: the same set and export in another folder, or what differs by name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import fields
from hashlib import sha256
from pathlib import Path
from typing import Any

import fsspec
import pytest

from ares import open as open_workspace
from ares.curation import Sets
from ares.export import ExportRequest, TrimRequest
from ares_app.cli.main import main
from tests.app.cli.conftest import Refused
from tests.ares.export.test_identity import files_of
from tests.generators.hostile_files import write_card
from tests.ingest.lerobot.good_folders import write_good_folder
from tests.ingest.test_exported_again import CAPTIONER, make_caption, write_robomimic
from tests.thinning import some_by_day
from tests.workspaces import CommandResult

Run = Callable[..., CommandResult]


@pytest.fixture(scope="module")
def card_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with sources of two formats, a workspace with labels of theirs, and the card of a set of both."""
    folder = tmp_path_factory.mktemp("made")
    write_good_folder(folder / "data" / "arm", version="v3.0", lengths=(6, 9, 7))
    (folder / "data" / "arm" / "LICENSE").write_text("MIT License\n")
    (folder / "data" / "demos").mkdir()
    write_robomimic(folder / "data" / "demos" / "demo.hdf5")
    spec = folder / "demos.yaml"
    spec.write_text("reference: ours\nrate_hz: 5\nrobot: panda\nlicence: cc-by-4.0\n")
    write_good_folder(folder / "unrelated", version="v2.1", lengths=(12,))
    with open_workspace(folder / "ws", create=True) as ws:
        ws.ingest(folder / "data" / "arm", quiet=True)
        ws.ingest(folder / "data" / "demos", spec=spec, dataset="ours", quiet=True)
        rows = ws.stores.tables.episodes.read_columns(["episode_id", "num_steps"]).to_pylist()
        ws.stores.annotations.add_producer(CAPTIONER)
        ws.stores.annotations.append([make_caption(row["episode_id"], row["num_steps"]) for row in rows])
        ws.ingest(folder / "unrelated", quiet=True)
        ws.note("not in the set", where="dataset = 'unrelated'")  # a column that no member fills
        ws.annotate("motion", quiet=True)
        ws.tag("long", where="num_steps > 8")
        both = ws.sets.create("both", where="caption != 'it takes 6 steps' AND dataset != 'unrelated'")
        for format in ("lerobot", "rlds"):
            ws.export(both, folder / format, format=format, quiet=True)
    for format in ("lerobot", "rlds"):
        card = folder / f"{format}.json"
        assert (
            main(
                ["set", "lock", "both", str(card), "--export", str(folder / format), "-w", str(folder / "ws")]
            )
            == 0
        )
    return folder


@pytest.mark.parametrize("format", some_by_day(["lerobot", "rlds"]))
def test_a_card_is_rebuilt_elsewhere_byte_for_byte(
    card_folder: Path, tmp_path: Path, format: str, run_ares: Run
) -> None:
    """Without models, from sources in other folders under other names; only the time of the export differs."""
    shutil.copytree(card_folder / "data" / "arm", tmp_path / "mirror" / "deep" / "arm")
    shutil.copytree(card_folder / "data" / "demos", tmp_path / "usb")
    card = shutil.copy(card_folder / f"{format}.json", tmp_path)
    shutil.copy(card_folder / f"{format}.labels.jsonl", tmp_path)
    where = [tmp_path / "mirror", tmp_path / "usb", "--export", tmp_path / "out"]
    report = run_ares("set", "rebuild", card, *where, "-w", tmp_path / "ws", "--json").json
    assert (report["set"], report["episodes"], report["differences"]) == ("both@1", 5, [])
    one, two = files_of(card_folder / format), files_of(tmp_path / "out")
    assert {name for name in one.keys() | two.keys() if one.get(name) != two.get(name)} == {
        "manifest.times.json"
    }
    assert report["same_files"] == len(two) - 1
    before, after = open_workspace(card_folder / "ws"), open_workspace(tmp_path / "ws")
    columns = ["episode_id", "caption", "idle_share", "tags"]
    rows, again = (
        workspace.stores.tables.episodes.read_columns(columns, "dataset != 'unrelated'").to_pylist()
        for workspace in (before, after)
    )
    assert sorted(rows, key=str) == sorted(again, key=str)
    assert after.sheet("ours").lines[3].belief == "cc-by-4.0"
    before.close()
    after.close()


def test_each_option_of_an_export_is_in_its_rebuild(card_folder: Path, tmp_path: Path, run_ares: Run) -> None:
    """The manifest has each option, and is the same file; an option that is new has to be tried here."""
    with open_workspace(card_folder / "ws") as ws:
        arm = ws.sets.create("arm", where="dataset = 'arm'")
        cameras = [camera.name for camera in arm.members[0].cameras]
        exports: list[dict[str, Any]] = [
            {
                "task": "instruction:original", "refuted": True, "fps": 5.0, "retime": "hold", "strict": True,
                "convert": ["state=order"], "segments": ["ungraded"], "weights": "num_steps",
                "trim": TrimRequest(interventions="without"),
            },
            {"signals": (), "drop_cameras": cameras},
            {"trim": TrimRequest(idle_seconds=0.5), "like": "arm"},
        ]  # fmt: skip
        tried, trims = set[str](), set[str]()
        for number, options in enumerate(exports):
            out, card, again = (tmp_path / f"{name}{number}" for name in ("out", "card", "again"))
            ws.export(arm, out, quiet=True, **options)
            arm.write_lock(card, out)
            rebuild = ("set", "rebuild", card, card_folder / "data", "--export", again)
            report = run_ares(*rebuild, "-w", tmp_path / "ws", "--json").json
            assert report["differences"] == [], options
            manifest = json.loads((again / "manifest.json").read_text())["export"]
            tried |= set(manifest)
            trims |= {name for name, value in manifest.get("trim", {}).items() if value}
    assert tried | NOT_OF_A_REBUILD == {field.name for field in fields(ExportRequest)}
    assert trims == {field.name for field in fields(TrimRequest)}


# What says nothing of the files.
NOT_OF_A_REBUILD = {
    "set", "destination", "files_hash", "min_precision", "min_kept", "least_episodes", "link_dest",
}  # fmt: skip
REMEDY = "rebuild the set without --export, or export it again and lock that"
APPENDED = [{"set": {"name": "more"}, "options": {"format": "lerobot"}}]


@pytest.mark.parametrize(
    ("export", "options", "said"),
    [
        ({"appended": APPENDED}, {}, "appended [{"),
        (
            {},
            {"trim": {"drop_segments": "text = 'wait'"}, "progress": "done"},
            "progress done, drop_segments",
        ),
        pytest.param({}, {"weights": ["a", "b"]}, "weights ['a', 'b']", marks=pytest.mark.slow),
    ],
)
def test_of_a_card_of_an_earlier_ares_the_set_alone_is_rebuilt(
    card_folder: Path,
    tmp_path: Path,
    export: dict[str, Any],
    options: dict[str, Any],
    said: str,
    run_ares: Run,
    refused: Refused,
) -> None:
    card = tmp_path / "card.json"
    shutil.copy(card_folder / "lerobot.labels.jsonl", tmp_path)
    document = json.loads((card_folder / "lerobot.json").read_text())
    document["export"] |= export
    document["export"]["options"] |= options
    document["makers"] = {"f" * 16: "caption 1 m"}
    del document["texts"]
    card.write_text(json.dumps(document))
    rebuild = ("set", "rebuild", card, card_folder / "data", "-w", tmp_path / "ws")
    line = refused(*rebuild, "--export", tmp_path / "again")
    assert said in line and REMEDY in line
    assert not (tmp_path / "again").exists()
    assert run_ares(*rebuild, "--json").json["set"] == "both@1"


def test_an_export_that_an_earlier_ares_appended_to_is_not_locked(
    card_folder: Path, tmp_path: Path, refused: Refused
) -> None:
    shutil.copytree(card_folder / "lerobot", tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    (tmp_path / "out" / "manifest.json").write_text(json.dumps({**manifest, "appended": APPENDED}))
    lock = ("set", "lock", "both", tmp_path / "new.json", "--export", tmp_path / "out")
    assert REMEDY in refused(*lock, "-w", card_folder / "ws")


def test_a_changed_byte_and_a_missing_source_are_named(
    card_folder: Path, tmp_path: Path, run_ares: Run
) -> None:
    shutil.copytree(card_folder / "data", tmp_path / "data")
    video = sorted((tmp_path / "data" / "arm").rglob("*.mp4"))[0]
    content = bytearray(video.read_bytes())
    content[len(content) // 2] ^= 1
    video.write_bytes(content)
    (tmp_path / "data" / "arm" / "LICENSE").unlink()
    shutil.rmtree(tmp_path / "data" / "demos")
    card, own = card_folder / "lerobot.json", ("-w", tmp_path / "ws", "--json")
    done = run_ares("set", "rebuild", card, tmp_path, *own)
    differences = done.json["differences"]
    assert done.status == 1
    name = video.relative_to(tmp_path / "data" / "arm").as_posix()
    assert [(part["kind"], part["name"]) for part in differences] == [
        ("source", "ours"), ("file", "arm: LICENSE"), ("file", f"arm: {name}"),
    ]  # fmt: skip
    assert "demos/demo.hdf5" in differences[0]["expected"] and differences[1]["actual"].startswith("missing")
    assert differences[2]["expected"] != differences[2]["actual"]


def test_what_cannot_be_rebuilt_is_said_in_one_line(
    card_folder: Path, tmp_path: Path, refused: Refused
) -> None:
    """An older lock, labels that were changed or left behind, a workspace in use, and an export of another set."""
    old, card = tmp_path / "old.json", tmp_path / "lerobot.json"
    with open_workspace(card_folder / "ws") as ws:
        Sets(ws.stores.annotations).write_lock(ws.sets["both"], old)
        ws.sets.create("few", where="num_steps = 9")

    def refuse(lock: Path, workspace: Path = tmp_path / "new") -> str:
        return refused("set", "rebuild", lock, card_folder / "data", "-w", workspace)

    assert "card: Field required; `ares set lock` writes one" in refuse(old)
    shutil.copy(card_folder / "lerobot.json", card)
    assert "labels of the card are missing" in refuse(card)
    labels = tmp_path / "lerobot.labels.jsonl"
    labels.write_text((card_folder / labels.name).read_text().replace("it takes 9", "it takes 8"))
    assert "labels were changed" in refuse(card)
    shutil.copy(card_folder / labels.name, tmp_path)
    assert "has episodes already" in refuse(card, card_folder / "ws")
    lock = ("set", "lock", "few", tmp_path / "few.json", "--export", card_folder / "rlds")
    assert "the export is of another set" in refused(*lock, "-w", card_folder / "ws")


@pytest.mark.parametrize(
    "line",
    some_by_day(
        [
            "not JSON",
            "[]",
            '{"annotation": ["one"]}',
            '{"annotation": [1, 2, 3, 4, 5, 6]}',
            '{"document": ["pins"]}',
            '{"episode": {"key": "1"}}',
            '{"maker": 3}',
            '{"other": {}}',
        ]
    ),
)
def test_labels_of_another_form_are_refused_in_one_line(
    card_folder: Path, tmp_path: Path, line: str, refused: Refused
) -> None:
    card = write_card(card_folder / "lerobot.json", tmp_path, line + "\n")
    said = refused("set", "rebuild", card, card_folder / "data", "-w", tmp_path / "w")
    assert "these are no labels of a card" in said


def test_a_source_on_a_url_has_the_hashes_of_its_files(
    tmp_path: Path, demo_samples: Path, run_ares: Run
) -> None:
    """The card is rebuilt from the URL, and from a copy on a disk; a changed byte there is named."""
    store, card = fsspec.filesystem("memory"), tmp_path / "all.json"
    try:
        store.put(str(demo_samples / "rlds"), "/lab", recursive=True)
        with open_workspace(tmp_path / "ws", create=True) as ws:
            ws.ingest("memory://lab", dataset="kept", quiet=True)
            ws.sets.create("all", where="true")
        done = run_ares("set", "lock", "all", card, "-w", tmp_path / "ws")
        assert done.status == 0 and "not where they were read" not in done.err
        (source,) = json.loads(card.read_text())["sources"]
        files = [path for path in (demo_samples / "rlds").rglob("*") if path.is_file()]
        hashes = {path.name: sha256(path.read_bytes()).hexdigest() for path in files}
        assert {file["path"]: file["sha256"] for file in source["files"]} == hashes
        shutil.copytree(demo_samples / "rlds", tmp_path / "disk" / "lab")
        for place, name in (("memory://lab", "again"), (tmp_path / "disk", "third")):
            assert run_ares("set", "rebuild", card, place, "-w", tmp_path / name).status == 0
        name = next(name for name in store.find("/lab") if "tfrecord" in name)
        store.pipe_file(name, store.cat_file(name)[:-1] + b"x")
        done = run_ares("set", "rebuild", card, "memory://lab", "-w", tmp_path / "other")
        assert done.status == 1 and f"{Path(name).name}: " in done.out
    finally:
        store.store.clear()
        store.pseudo_dirs[:] = [""]
