"""An export is appended to: its files keep their bytes, the rest is what an export of everything at once has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from app.cli.main import main
from ares import open as open_workspace
from ares.errors import MediaError, RequestError
from ares.export import TrimRequest
from ares.workspace import Workspace
from ingest.base import SourceOptions
from tests.ingesting import ingest_paths
from tests.torture.exports import read_files


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Iterator[Workspace]:
    """The sample videos as the sets "first" (two), "second" (three) and "both", and records as "other"."""
    ws = open_workspace(tmp_path_factory.mktemp("append") / "ws", create=True)
    ingest_paths(ws.stores, [str(demo_samples / "video")], limit=5, quiet=True)
    ids = sorted(ws.stores.tables.episodes.ids())
    for name, members in {"first": ids[:2], "second": ids[2:], "both": ids}.items():
        ws.sets.create(name, members, {})
    ingest_paths(ws.stores, [str(demo_samples / "rlds")], SourceOptions(rate_hz=10.0), limit=2, quiet=True)
    ws.sets.create("other", ws.stores.tables.episodes.ids("format = 'rlds'"), {})
    yield ws
    ws.close()


def append_second(workspace: Workspace, out: Path, format: str) -> dict[str, bytes]:
    """The files of an export of the first set, to which the second is appended."""
    workspace.export("first", out, format=format, quiet=True)
    files = read_files(out)
    report = workspace.export("second", out, format=format, append=True, quiet=True)
    assert (report.episodes, report.failed, report.path) == (3, 0, out)
    assert [path.name for path in out.parent.iterdir()] == [out.name]
    return files


def read_rows(folder: Path, pattern: str) -> list[dict[str, Any]]:
    """The rows of all Parquet files of a kind, in order."""
    return [row for file in sorted(folder.glob(pattern)) for row in pq.read_table(file).to_pylist()]


def test_a_trim_cuts_what_is_appended(workspace: Workspace, tmp_path: Path) -> None:
    workspace.export("first", tmp_path / "out", quiet=True)
    own = workspace.sets["second"].members[0].episode_id
    spans = tmp_path / "spans.csv"
    spans.write_text(f"episode_id,start_seconds,stop_seconds\n{own},0.5,1.5\n")
    trim = TrimRequest(keep_spans=str(spans))
    report = workspace.export("second", tmp_path / "out", append=True, trim=trim, quiet=True)
    lines = (tmp_path / "out/manifest.episodes.jsonl").read_text().splitlines()
    (added,) = [line for line in map(json.loads, lines) if line["episode_id"] == own]
    assert (report.episodes, len(lines)) == (1, 3) and added["start_seconds"] == pytest.approx(0.5, abs=0.1)


def test_lerobot_v30_goes_on_in_new_files(workspace: Workspace, tmp_path: Path) -> None:
    files = append_second(workspace, tmp_path / "out", "lerobot")
    workspace.export("both", tmp_path / "once", format="lerobot", quiet=True)
    out, once = tmp_path / "out", tmp_path / "once"
    after = read_files(out)
    untouched = [
        name for name in files if name.split("/")[0] in ("data", "videos") or "meta/episodes/" in name
    ]
    assert len(untouched) == 4 and all(after[name] == files[name] for name in untouched)
    assert read_rows(out, "data/*/*.parquet") == read_rows(once, "data/*/*.parquet")
    for name in ("meta/stats.json", "meta/tasks.parquet", "meta/info.json"):
        assert after[name] == read_files(once)[name], name
    rows, expected = (read_rows(folder, "meta/episodes/*/*.parquet") for folder in (out, once))
    for row, other in zip(rows, expected, strict=True):
        files_of = {name for name in row if name.endswith(("file_index", "_timestamp"))}
        assert {name: row[name] for name in row.keys() - files_of} == {
            name: other[name] for name in row.keys() - files_of
        }
    assert [row["data/file_index"] for row in rows] == [0, 0, 1, 1, 1]
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["counts"]["episodes"] == manifest["episodes"]["count"] == 5
    assert [part["set"]["name"] for part in (manifest, *manifest["appended"])] == ["first", "second"]
    assert (out / "manifest.episodes.jsonl").read_bytes() == (once / "manifest.episodes.jsonl").read_bytes()


def test_lerobot_v21_has_what_an_export_at_once_has(workspace: Workspace, tmp_path: Path) -> None:
    append_second(workspace, tmp_path / "out", "lerobot-v2.1")
    workspace.export("both", tmp_path / "once", format="lerobot-v2.1", quiet=True)
    out, once = read_files(tmp_path / "out"), read_files(tmp_path / "once")
    assert out.keys() == once.keys()
    # What says of which sets it is made.
    assert [name for name in once if out[name] != once[name]] == ["README.md", "manifest.json"]
    card, whole = (files["README.md"].decode() for files in (out, once))
    for section in ("Sources", "Findings", "Which episode is which"):
        own, expected = (text.split(f"## {section}\n")[1].split("\n## ")[0] for text in (card, whole))
        assert own == expected, "one table over both, not one for each"
    assert card.count("\n# ") == 1 and "\n# first@1 + second@1\n" in card and card.count("Not certified") == 2
    assert whole.split("\n# ")[0] == card.split("\n# ")[0] and "5 episodes" in card
    assert "ares export second@1 NEW_FOLDER --format lerobot-v2.1 --append" in card


def test_rlds_shards_keep_their_bytes(workspace: Workspace, tmp_path: Path) -> None:
    files = append_second(workspace, tmp_path / "out", "rlds")
    after = read_files(tmp_path / "out")
    (shard,) = [name for name in files if "tfrecord-" in name]
    assert after[shard.replace("-of-00001", "-of-00002")] == files[shard]
    again = open_workspace(tmp_path / "ws", create=True)
    again.ingest(tmp_path / "out", quiet=True)
    assert len(again.episodes) == 5
    again.close()


@pytest.mark.parametrize("format", ["lerobot", "rlds"])
def test_what_the_export_has_is_left_out_or_refused(
    workspace: Workspace, tmp_path: Path, format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    workspace.export("first", out, format=format, quiet=True)
    files = read_files(out)
    with pytest.raises(MediaError, match="the export has the episode already"):
        workspace.export("first", out, format=format, append=True, quiet=True)
    assert read_files(out) == files
    words = ["export", "both", str(out), "--format", format, "--append", "-w", str(workspace.stores.location)]
    assert main([*words, "--json", "-q"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["episodes"], report["failed"], report["path"]) == (3, 2, str(out))
    assert "the export has the episode already" in str(report["failures"])


@pytest.mark.parametrize(
    ("selection", "format", "message"),
    [
        (
            "other",
            "lerobot",
            "the set does not fit the export: observation.images.front: null, the export has ",
        ),
        ("other", "rlds", "the set does not fit the export: it becomes "),
        ("second", "lerobot-v2.1", "the export has another format: lerobot v3.0, not lerobot v2.1"),
        ("second", "parquet", "the format cannot be appended to: parquet has one file"),
    ],
)
def test_a_set_that_does_not_fit_is_one_line(
    workspace: Workspace, tmp_path: Path, selection: str, format: str, message: str
) -> None:
    out = tmp_path / "out"
    workspace.export("first", out, format="rlds" if format == "rlds" else "lerobot", quiet=True)
    files = read_files(out)
    with pytest.raises(RequestError, match=message):
        workspace.export(selection, out, format=format, append=True, quiet=True)
    assert read_files(out) == files
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    with pytest.raises(RequestError, match="there is no export to append to"):
        workspace.export(selection, tmp_path / "none", format="lerobot", append=True, quiet=True)
