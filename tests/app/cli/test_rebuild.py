"""`ares set lock` and `ares set rebuild`: the same set and export in another folder, or what differs by name."""

from __future__ import annotations

import json
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

import fsspec
import pytest

from app.cli.main import main
from ares import open as open_workspace
from ares.curation import Sets
from tests.ares.export.test_identity import files_of
from tests.ingest.lerobot.good_folders import write_good_folder
from tests.ingest.test_exported_again import CAPTIONER, make_caption, write_robomimic
from tests.thinning import some_by_day


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
    run("ingest", folder / "data" / "arm", "-w", folder / "ws")
    run("ingest", folder / "data" / "demos", "--spec", spec, "--dataset", "ours", "-w", folder / "ws")
    workspace = open_workspace(folder / "ws")
    rows = workspace.stores.tables.episodes.read_columns(["episode_id", "num_steps"]).to_pylist()
    workspace.stores.annotations.add_producer(CAPTIONER)
    workspace.stores.annotations.append([make_caption(row["episode_id"], row["num_steps"]) for row in rows])
    workspace.close()
    write_good_folder(folder / "unrelated", version="v2.1", lengths=(12,))
    run("ingest", folder / "unrelated", "-w", folder / "ws")
    # A column that no member fills.
    run("note", "not in the set", "--dataset", "unrelated", "-w", folder / "ws")
    run("annotate", "motion", "-w", folder / "ws")
    run("tag", "add", "long", "--where", "num_steps > 8", "-w", folder / "ws")
    run(
        "set",
        "create",
        "both",
        "--where",
        "caption != 'it takes 6 steps' AND dataset != 'unrelated'",
        "-w",
        folder / "ws",
    )
    for format in ("lerobot", "rlds"):
        run("export", "both", folder / format, "--format", format, "-w", folder / "ws")
        run(
            "set", "lock", "both", folder / f"{format}.json", "--export", folder / format, "-w", folder / "ws"
        )
    return folder


def run(*arguments: object) -> int:
    return main([*map(str, arguments), "-q"])


@pytest.mark.parametrize("format", some_by_day(["lerobot", "rlds"]))
def test_a_card_is_rebuilt_elsewhere_byte_for_byte(
    card_folder: Path, tmp_path: Path, format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without models, from sources in other folders under other names; only the time of the export differs."""
    shutil.copytree(card_folder / "data" / "arm", tmp_path / "mirror" / "deep" / "arm")
    shutil.copytree(card_folder / "data" / "demos", tmp_path / "usb")
    card = shutil.copy(card_folder / f"{format}.json", tmp_path)
    shutil.copy(card_folder / f"{format}.labels.jsonl", tmp_path)
    where = ["--sources", tmp_path / "mirror", tmp_path / "usb", "--export", tmp_path / "out"]
    assert run("set", "rebuild", card, *where, "-w", tmp_path / "ws", "--json") == 0
    report = json.loads(capsys.readouterr().out)
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


def test_of_an_export_that_an_earlier_ares_appended_to_the_set_alone_is_rebuilt(
    card_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its card and its export are told what to do in its place; the rest of the card holds."""
    here, out, card = ["-w", card_folder / "ws"], tmp_path / "out", tmp_path / "card.json"
    shutil.copytree(card_folder / "lerobot", out)
    shutil.copy(card_folder / "lerobot.labels.jsonl", tmp_path)
    appended = [{"set": {"name": "more", "version": 1}, "export": {"format": "lerobot"}}]
    manifest = json.loads((out / "manifest.json").read_text())
    (out / "manifest.json").write_text(json.dumps({**manifest, "appended": appended}))
    remedy = "join them with `ares set union`, export that into a new folder, and lock it"
    assert run("set", "lock", "both", tmp_path / "new.json", "--export", out, *here) == 2
    assert remedy in capsys.readouterr().err
    document = json.loads((card_folder / "lerobot.json").read_text())
    document["export"]["appended"] = [{"set": {"name": "more"}, "options": {"format": "lerobot"}}]
    card.write_text(json.dumps(document))
    rebuild = ["set", "rebuild", card, "--sources", card_folder / "data", "-w", tmp_path / "ws"]
    assert run(*rebuild, "--export", tmp_path / "again") == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert remedy in line and str(card) in line and not (tmp_path / "again").exists()
    assert run(*rebuild, "--json") == 0
    assert json.loads(capsys.readouterr().out)["set"] == "both@1"
    # Cards of that time name nothing as appended, too.
    document["export"]["appended"] = []
    card.write_text(json.dumps(document))
    rebuild[-1] = tmp_path / "other"
    assert run(*rebuild, "--export", tmp_path / "again", "--json") == 0
    assert json.loads(capsys.readouterr().out)["differences"] == []


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"trim": {"drop_segments": "text = 'wait'"}}, "text = 'wait'; "),
        ({"weights": ["num_steps", "0.5 where success"]}, "num_steps, 0.5 where success; "),
        ({"weights": ["0 over text = 'wait'"]}, "0 over text = 'wait'; "),
    ],
)
def test_of_a_card_with_options_that_are_gone_the_set_alone_is_rebuilt(
    card_folder: Path,
    tmp_path: Path,
    options: dict[str, Any],
    named: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copy(card_folder / "lerobot.labels.jsonl", tmp_path)
    document = json.loads((card_folder / "lerobot.json").read_text())
    document["export"]["options"] |= options
    (tmp_path / "card.json").write_text(json.dumps(document))
    rebuild = [
        "set",
        "rebuild",
        tmp_path / "card.json",
        "--sources",
        card_folder / "data",
        "-w",
        tmp_path / "ws",
    ]
    assert run(*rebuild, "--export", tmp_path / "again") == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert f"options of an earlier ARES: {named}rebuild the set without --export" in line
    assert run(*rebuild) == 0


def rebuilt(
    card_folder: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[int, list[dict[str, Any]]]:
    """The exit status and the differences of a rebuild from the sources in a folder."""
    status = run(
        "set", "rebuild", card_folder / "lerobot.json", "--sources", folder, "-w", folder / "ws", "--json"
    )  # fmt: skip
    return status, json.loads(capsys.readouterr().out)["differences"]


def test_a_changed_byte_and_a_missing_source_are_named(
    card_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(card_folder / "data", tmp_path / "data")
    video = sorted((tmp_path / "data" / "arm").rglob("*.mp4"))[0]
    content = bytearray(video.read_bytes())
    content[len(content) // 2] ^= 1
    video.write_bytes(content)
    (tmp_path / "data" / "arm" / "LICENSE").unlink()
    shutil.rmtree(tmp_path / "data" / "demos")
    status, differences = rebuilt(card_folder, tmp_path, capsys)
    assert status == 1
    name = video.relative_to(tmp_path / "data" / "arm").as_posix()
    assert [(part["kind"], part["name"]) for part in differences] == [
        ("source", "ours"), ("file", "arm: LICENSE"), ("file", f"arm: {name}"),
    ]  # fmt: skip
    assert "demos/demo.hdf5" in differences[0]["expected"] and differences[1]["actual"].startswith("missing")
    assert differences[2]["expected"] != differences[2]["actual"]


def test_what_cannot_be_rebuilt_is_said_in_one_line(
    card_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An older lock, labels that were changed or left behind, a workspace in use, and an export of another set."""
    workspace = open_workspace(card_folder / "ws")
    Sets(workspace.stores.annotations).write_lock(workspace.sets["both"], tmp_path / "old.json")
    workspace.close()
    paths = [tmp_path / "old.json", "--sources", card_folder / "data", "-w", tmp_path / "new"]
    rebuild = ["set", "rebuild", *paths]
    assert run(*rebuild) == 2
    assert "write it again with `ares set lock both@1 FILE`" in capsys.readouterr().err
    card = Path(shutil.copy(card_folder / "lerobot.json", tmp_path))
    rebuild[2] = card
    assert run(*rebuild) == 2
    assert "labels of the card are missing" in capsys.readouterr().err
    labels = tmp_path / "lerobot.labels.jsonl"
    labels.write_text((card_folder / labels.name).read_text().replace("it takes 9", "it takes 8"))
    assert run(*rebuild) == 2
    assert "labels were changed" in capsys.readouterr().err
    shutil.copy(card_folder / labels.name, tmp_path)
    assert run(*rebuild[:-1], card_folder / "ws") == 2
    assert "has episodes already" in capsys.readouterr().err
    run("set", "create", "few", "--where", "num_steps = 9", "-w", card_folder / "ws")
    target = (tmp_path / "few.json", "--export", card_folder / "rlds", "-w", card_folder / "ws")
    assert run("set", "lock", "few", *target) == 2
    assert "the export is of another set" in capsys.readouterr().err


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
    card_folder: Path, tmp_path: Path, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.labels.jsonl").write_text(line + "\n")
    ingest = (
        "ingest",
        card_folder / "data" / "arm",
        "--labels",
        tmp_path / "x.labels.jsonl",
        "-w",
        tmp_path / "w",
    )
    assert run(*ingest) == 2
    assert "these are no labels of a card" in capsys.readouterr().err


def test_a_source_on_a_url_has_the_hashes_of_its_files(
    tmp_path: Path, demo_samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The card is rebuilt from the URL, and from a copy on a disk; a changed byte there is named."""
    store = fsspec.filesystem("memory")
    try:
        store.put(str(demo_samples / "rlds"), "/lab", recursive=True)
        run("ingest", "memory://lab", "--dataset", "kept", "-w", tmp_path / "ws")
        run("set", "create", "all", "-w", tmp_path / "ws")
        capsys.readouterr()
        assert run("set", "lock", "all", tmp_path / "all.json", "-w", tmp_path / "ws") == 0
        assert "not where they were read" not in capsys.readouterr().err
        (source,) = json.loads((tmp_path / "all.json").read_text())["sources"]
        files = [path for path in (demo_samples / "rlds").rglob("*") if path.is_file()]
        hashes = {path.name: sha256(path.read_bytes()).hexdigest() for path in files}
        assert {file["path"]: file["sha256"] for file in source["files"]} == hashes
        rebuild = ["set", "rebuild", tmp_path / "all.json", "--sources"]
        assert run(*rebuild, "memory://lab", "-w", tmp_path / "again") == 0
        shutil.copytree(demo_samples / "rlds", tmp_path / "disk" / "lab")
        assert run(*rebuild, tmp_path / "disk", "-w", tmp_path / "third") == 0
        name = next(name for name in store.find("/lab") if "tfrecord" in name)
        store.pipe_file(name, store.cat_file(name)[:-1] + b"x")
        capsys.readouterr()
        assert run(*rebuild, "memory://lab", "-w", tmp_path / "other") == 1
        assert f"{Path(name).name}: " in capsys.readouterr().out
    finally:
        store.store.clear()
        store.pseudo_dirs[:] = [""]
