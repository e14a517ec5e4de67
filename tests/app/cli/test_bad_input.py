"""Bad input: one clear line on standard error, exit status 2 (or 1 for a bad item), and nothing stored is lost."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from app.cli.main import main
from ares.settings import settings_from_environment
from ares.workspace import open_workspace

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def workspace(demo_samples: Path, tmp_path: Path, capsys: Capture) -> str:
    path = str(tmp_path / "workspace")
    assert main(["ingest", "-w", path, str(demo_samples / "video")]) == 0
    capsys.readouterr()
    return path


def refused(capsys: Capture, *arguments: str, status: int = 2) -> str:
    """Run a command that is refused; returns its error line, without the position in a filter below it."""
    assert main(arguments) == status
    out, err = capsys.readouterr()
    line, *pointer = err.splitlines()
    assert out == "" and "Traceback" not in err
    assert not pointer or (len(pointer) == 2 and pointer[1].strip() == "^")
    return line


def run_json(capsys: Capture, status: int, *arguments: str) -> Any:
    assert main([*arguments, "--json"]) == status
    return json.loads(capsys.readouterr().out)


def episodes(path: str) -> int:
    return open_workspace(path, settings_from_environment({})).stores.tables.episodes.count()


def test_a_folder_that_is_no_dataset(workspace: str, capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    line = refused(capsys, "ingest", "-w", workspace, str(tmp_path / "empty"))
    assert "is not a recognised dataset" in line and "rlds, rosbag, video" in line
    assert "no such file" in refused(capsys, "ingest", "-w", workspace, str(tmp_path / "nowhere"))
    assert episodes(workspace) == 12


def test_a_wrong_path_leaves_no_workspace_behind(capsys: Capture, tmp_path: Path) -> None:
    refused(capsys, "ingest", "-w", str(tmp_path / "new"), str(tmp_path / "nowhere"))
    assert "there is no workspace" in refused(capsys, "status", "-w", str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_a_folder_of_something_else_is_never_a_workspace(
    capsys: Capture, demo_samples: Path, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("notes")
    line = refused(capsys, "ingest", "-w", str(tmp_path), str(demo_samples / "video"))
    assert "is not a workspace" in line
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_tfrecord_cut_in_the_middle_and_a_wrong_checksum(
    workspace: str, capsys: Capture, demo_samples: Path, tmp_path: Path
) -> None:
    shutil.copytree(demo_samples / "rlds", tmp_path / "rlds")
    first, second = sorted((tmp_path / "rlds").rglob("*.tfrecord-*"))
    first.write_bytes(first.read_bytes()[: first.stat().st_size // 2])
    broken = bytearray(second.read_bytes())
    broken[5000] ^= 0xFF
    second.write_bytes(bytes(broken))
    arguments = ("ingest", "-w", workspace, "--rate", "10", str(tmp_path / "rlds"))
    document = run_json(capsys, 1, *arguments)
    assert document["planned"] == 12 == document["kept"] + document["failed"]
    reasons = {row["reason"]: row["count"] for row in document["failures"]}
    assert sum("checksum" in reason or "CRC" in reason for reason in reasons) == 1
    assert sum("cut" in reason for reason in reasons) == 1
    assert all(first.name in row["example"] or second.name in row["example"] for row in document["failures"])
    assert episodes(workspace) == 12 + document["kept"]
    assert document["kept"] >= 7


def test_a_video_of_zero_bytes_and_a_metadata_line_that_is_not_json(
    workspace: str, capsys: Capture, demo_samples: Path, tmp_path: Path
) -> None:
    shutil.copytree(demo_samples / "video", tmp_path / "other")
    (tmp_path / "other" / "videos" / "basketball_000_front.mp4").write_bytes(b"")
    lines = (tmp_path / "other" / "metadata.jsonl").read_text().splitlines()
    lines[4] = lines[4][:-10]
    (tmp_path / "other" / "metadata.jsonl").write_text("\n".join(lines) + "\n")
    document = run_json(capsys, 1, "ingest", "-w", workspace, str(tmp_path / "other"))
    assert (document["planned"], document["kept"], document["failed"]) == (12, 10, 2)
    examples = " ".join(row["example"] for row in document["failures"])
    assert "metadata.jsonl" in examples and "line 5" in examples and "basketball_000_front.mp4" in examples


def test_an_instruction_with_html_in_it_stays_text(
    capsys: Capture, demo_samples: Path, tmp_path: Path
) -> None:
    shutil.copytree(demo_samples / "video", tmp_path / "v")
    rows = [json.loads(line) for line in (tmp_path / "v" / "metadata.jsonl").read_text().splitlines()]
    hostile = '<img src=x onerror=alert(1)>\x1b[31m "drawer"'
    rows[0]["instruction"] = hostile
    (tmp_path / "v" / "metadata.jsonl").write_text("\n".join(map(json.dumps, rows)))
    path = str(tmp_path / "w")
    run_json(capsys, 0, "ingest", "-w", path, str(tmp_path / "v"))
    (hit,) = run_json(capsys, 0, "search", "onerror", "-w", path)
    assert hit["instruction"] == hostile
    assert main(["search", "onerror", "-w", path]) == 0
    assert "\x1b[31m" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("annotate", "captoin"),
            "no annotator 'captoin': did you mean 'caption'? there are: caption, embed, grade, map, motion, "
            "segment, success",
        ),
        (
            ("ingest", ".", "--format", "rdls"),
            "no ingester 'rdls': did you mean 'rlds'? there are: agibot, csv, hdf5, images, lerobot, mcap,",
        ),
        (("search", "x", "--where", "succes = true"), "the columns are"),
        (("search", "x", "--where", "success = "), "the filter cannot be read"),
        (("search", "--like", "0000000000000000"), "no episode '0000000000000000'"),
        (("search", "x", "--by", "frames"), "run `ares annotate embed` first"),
        (("show", "nonsense"), "no episode 'nonsense'"),
        (("set", "create", "../b"), "'../b'"),
        (("set", "create", "none", "--where", "num_steps < 0"), "empty"),
        (("set", "show", "nope"), "no set 'nope'"),
        (("export", "nope", "out", "--format", "lerobot"), "no set 'nope'"),
        (("rubric", "show", "nope"), "no rubric 'nope': there are: caption"),
        (("annotate", "embed", "--model", "local-dir:/nowhere"), "/nowhere"),
        (("annotate", "caption", "--model", "hf:/nowhere/model"), "/nowhere/model"),
        (("annotate", "caption", "--model", "nonsense"), "nonsense"),
        (("annotate", "caption", "--budget", "1"), "ARES_PRICE"),
    ],
)
def test_a_wrong_request_is_one_line(
    workspace: str, capsys: Capture, arguments: tuple[str, ...], message: str
) -> None:
    assert message in refused(capsys, *arguments, "-w", workspace)
    assert episodes(workspace) == 12


def test_an_export_format_that_is_unknown(workspace: str, capsys: Capture) -> None:
    assert main(["set", "create", "all", "-w", workspace]) == 0
    capsys.readouterr()
    line = refused(capsys, "export", "all", "out", "--format", "zarr", "-w", workspace)
    assert "no exporter 'zarr': there are: jsonl, lerobot, lerobot-v2.1, parquet, rlds" in line


def _closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_an_unreachable_model_server(workspace: str, capsys: Capture) -> None:
    address = f"http://127.0.0.1:{_closed_port()}/v1"
    model = f"openai:qwen@{address}"
    line = refused(capsys, "annotate", "caption", "--model", model, "-w", workspace, status=4)
    assert address in line
    assert episodes(workspace) == 12


def test_an_unreachable_mongodb(
    capsys: Capture, demo_samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = _closed_port()
    monkeypatch.setenv("ARES_MONGO_URI", f"mongodb://ares:secret@127.0.0.1:{port}/")
    line = refused(capsys, "ingest", "-w", str(tmp_path / "w"), str(demo_samples / "video"))
    assert f"127.0.0.1:{port}" in line and "secret" not in line


@pytest.mark.parametrize("limit", ["-1", "99999999999999999999", "many", "1e3"])
def test_a_limit_that_is_no_number_of_episodes(capsys: Capture, limit: str, tmp_path: Path) -> None:
    for arguments in (
        ("search", "mug"),
        ("set", "create", "x"),
        ("annotate", "motion"),
        ("ingest", str(tmp_path)),
    ):
        with pytest.raises(SystemExit) as exit_info:
            main([*arguments, f"--limit={limit}", "-w", str(tmp_path / "w")])
        assert exit_info.value.code == 2
        assert "is not a number of episodes" in capsys.readouterr().err
