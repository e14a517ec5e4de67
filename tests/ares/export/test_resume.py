"""An export that was stopped goes on: what is whole is not made again, and the result is that of an undisturbed one."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ares import open as open_workspace
from ares.errors import RequestError, StoreError
from ares.media import PacketJoiner
from ares.workspace import Workspace
from tests.ares.export.segments import PERSON, append, segment
from tests.house.imports import ROOT
from tests.torture.datasets import write_video
from tests.torture.exports import read_files
from tests.torture.syscalls import can_inject

EXPORTER, RECORD = "ares.export.lerobot.exporter", "ares.export.rlds.exporter"


def count_calls(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[Any]:
    """A list that gets the arguments of every call of a function of a module or class."""
    owner = import_module(owner) if isinstance(owner, str) else owner
    calls: list[Any] = []
    real = getattr(owner, name)

    def counting(*arguments: Any, **named: Any) -> Any:
        calls.append(arguments)
        return real(*arguments, **named)

    monkeypatch.setattr(owner, name, counting)
    return calls


def fill_disk_at(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, call: int) -> None:
    """Let a method fail from a call on as on a full disk."""
    real, calls = getattr(owner, name), [0]

    def failing(*arguments: Any, **named: Any) -> Any:
        calls[0] += 1
        if calls[0] >= call:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*arguments, **named)

    monkeypatch.setattr(owner, name, failing)


@pytest.mark.parametrize("format", ["lerobot", pytest.param("lerobot-v2.1", marks=pytest.mark.slow)])
def test_the_same_export_again_prepares_only_what_is_missing(
    sample_workspace: Workspace, tmp_path: Path, format: str
) -> None:
    from ares.export.lerobot import exporter, writer

    sample_workspace.export("few", tmp_path / "undisturbed", format=format, quiet=True)
    with pytest.MonkeyPatch.context() as patch:
        prepared = count_calls(patch, EXPORTER, "prepare_video")
        owner = writer.LeRobotWriter if format == "lerobot" else exporter.LeRobotV21Writer
        fill_disk_at(patch, owner, "add", 4)
        message = r"the disk is full.*out\.tmp has what is whole: run the same command"
        with pytest.raises(StoreError, match=message):
            sample_workspace.export("few", tmp_path / "out", format=format, quiet=True)
        before = {arguments[3].name for arguments in prepared}
    assert not (tmp_path / "out").exists()
    with pytest.MonkeyPatch.context() as patch:
        prepared = count_calls(patch, EXPORTER, "prepare_video")
        sample_workspace.export("few", tmp_path / "out", format=format, quiet=True)
    assert before and not before & {arguments[3].name for arguments in prepared}
    assert read_files(tmp_path / "out") == read_files(tmp_path / "undisturbed")
    assert not (tmp_path / "out.tmp").exists()


@pytest.mark.slow
def test_files_that_are_whole_are_not_written_again(
    sample_workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ares.export.lerobot import tables, writer

    monkeypatch.setattr(writer, "VIDEO_FILE_MB", 0.05)
    monkeypatch.setattr(tables, "DATA_FILE_MB", 0.005)
    sample_workspace.export("few", tmp_path / "undisturbed", format="lerobot", quiet=True)
    with pytest.MonkeyPatch.context() as patch:
        fill_disk_at(patch, writer.LeRobotWriter, "finish", 2)
        with pytest.raises(StoreError):
            sample_workspace.export("few", tmp_path / "out", format="lerobot", quiet=True)
    whole = {
        path: path.stat().st_mtime_ns
        for path in (tmp_path / "out.tmp").rglob("*")
        if path.suffix in (".mp4", ".parquet")
    }
    with pytest.MonkeyPatch.context() as patch:
        joined = count_calls(patch, PacketJoiner, "__init__")
        sample_workspace.export("few", tmp_path / "out", format="lerobot", quiet=True)
    kept = [path for path, stamp in whole.items() if _stamp(path, tmp_path) == stamp]
    videos = [path for path in kept if path.suffix == ".mp4" and ".scratch" not in path.parts]
    assert len(videos) >= 2 and not set(videos) & {arguments[1] for arguments in joined}
    assert any(path.suffix == ".parquet" for path in kept)
    assert read_files(tmp_path / "out") == read_files(tmp_path / "undisturbed")


def _stamp(path: Path, folder: Path) -> int:
    final = folder / "out" / path.relative_to(folder / "out.tmp")
    return final.stat().st_mtime_ns if final.exists() else 0


@pytest.mark.slow
def test_shards_that_are_whole_are_not_written_again(
    sample_workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ares.export.rlds import exporter

    monkeypatch.setattr(exporter, "SHARD_BYTES", 1)
    sample_workspace.export("video", tmp_path / "undisturbed", format="rlds", quiet=True)
    with pytest.MonkeyPatch.context() as patch:
        fill_disk_at(patch, exporter._SplitWriter, "add", 6)
        with pytest.raises(StoreError):
            sample_workspace.export("video", tmp_path / "out", format="rlds", quiet=True)
    made = count_calls(monkeypatch, RECORD, "encode_rlds_record")
    sample_workspace.export("video", tmp_path / "out", format="rlds", quiet=True)
    assert len(made) == 12 - 5
    assert read_files(tmp_path / "out") == read_files(tmp_path / "undisturbed")


@pytest.mark.slow
def test_another_request_and_a_damaged_unit_start_anew(
    sample_workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ares.export.lerobot import writer

    with pytest.MonkeyPatch.context() as patch:
        fill_disk_at(patch, writer.LeRobotWriter, "finish", 2)
        with pytest.raises(StoreError):
            sample_workspace.export("few", tmp_path / "out", format="lerobot", quiet=True)
    shutil.copytree(tmp_path / "out.tmp", tmp_path / "damaged.tmp")
    prepared = count_calls(monkeypatch, EXPORTER, "prepare_video")
    encoded = list((tmp_path / "damaged.tmp" / ".scratch").rglob("*.mp4"))
    for file in encoded:
        file.write_bytes(file.read_bytes()[:-1])
    sample_workspace.export("few", tmp_path / "damaged", format="lerobot", quiet=True)
    assert 0 < len(encoded) == len(prepared)
    prepared.clear()
    sample_workspace.export("few", tmp_path / "out", format="lerobot", retime="hold", quiet=True)
    assert len(prepared) > len(encoded)
    assert read_files(tmp_path / "damaged").keys() == read_files(tmp_path / "out").keys()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("format", "fault", "share"),
    [
        ("lerobot", "kill", "0.9"),
        *(
            pytest.param(
                format,
                fault,
                "every" if fault in ("kill", "ENOSPC") else "kinds",
                marks=pytest.mark.nightly,
            )
            for format in ("lerobot", "lerobot-v2.1", "rlds", "parquet", "jsonl")
            for fault in ("kill", "ENOSPC", "torn", "EIO")
        ),
    ],
)
@pytest.mark.skipif(not can_inject(), reason="the kernel lets no process supervise another")
def test_a_fault_at_a_write_leaves_nothing_half_and_the_next_run_goes_on(
    small_workspace: Path, tmp_path: Path, format: str, fault: str, share: str
) -> None:
    arguments = [str(small_workspace), str(tmp_path), format, fault, share]
    command = [sys.executable, "-W", "ignore", "-m", "tests.torture.exports", *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=7200, cwd=ROOT, check=False)
    print(answer.stdout)
    assert answer.returncode == 0, (answer.stdout, answer.stderr[-1000:])


@pytest.fixture(scope="module")
def small_workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four videos of a few frames, two of them, with a text of a person each, in the set "first"; closed."""
    folder = tmp_path_factory.mktemp("small")
    path = folder / "ws"
    write_video(folder / "videos", 4)
    with open_workspace(path, create=True) as ws:
        ws.ingest(folder / "videos", quiet=True)
        ids = sorted(ws.stores.tables.episodes.ids())
        append(ws, [PERSON], [segment(PERSON, id, (0.0, 0.4), {"text": f"reach {id}"}) for id in ids[:2]])
        ws.sets.create("first", ids[:2], {})
    return path


def test_two_exports_into_one_folder_do_not_meet(
    sample_workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second took what the first had written for the rest of a stopped one, and removed it."""
    refused: list[str] = []
    make_report = import_module("ares.export.parquet").make_export_report

    def reporting(*arguments: Any, **named: Any) -> Any:
        with pytest.raises(RequestError, match="another process writes this export") as raised:
            sample_workspace.export("few", tmp_path / "out", format="jsonl", quiet=True)
        refused.append(raised.value.detail)
        return make_report(*arguments, **named)

    monkeypatch.setattr("ares.export.parquet.make_export_report", reporting)
    sample_workspace.export("few", tmp_path / "out", format="parquet", quiet=True)
    assert refused == [f"{tmp_path / 'out'}; wait for its end, or name another folder"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
