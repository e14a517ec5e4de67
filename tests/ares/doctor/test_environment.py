"""`ares doctor --environment` tells what the machine offers, in eight lines, whatever is broken or missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ares.doctor import describe_environment
from ares.settings import Settings
from ares.workspace import open_workspace
from tests.workspaces import CommandResult


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of the search path: what this machine has installed, such as ffmpeg, is not found."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def add_program(folder: Path, name: str, output: str, status: int = 0) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\nprintf '%s\\n' '{output}'\nexit {status}\n")
    program.chmod(0o755)


def facts(workspace: str = "") -> dict[str, str]:
    return {fact.name: f"{fact.value}; {fact.advice}" for fact in describe_environment(workspace)}


def test_without_a_workspace_there_are_eight_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_ares: Callable[..., CommandResult]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = run_ares("doctor", "--environment").out.splitlines()
    assert len(lines) == 8
    assert not list(tmp_path.iterdir())
    document = run_ares("doctor", "--environment", "--json").json
    assert [fact["name"] for fact in document] == [line.split("  ")[0] for line in lines]


def test_a_gpu_is_told_by_its_driver(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert facts()["GPU"] == "none (no nvidia-smi); "
    add_program(programs, "nvidia-smi", "NVIDIA H200, 143771, 143000, 570.86.15")
    assert facts()["GPU"] == "NVIDIA H200, 140 GiB, 140 GiB free, driver 570.86.15; "
    monkeypatch.setattr("ares.doctor.environment._torch_cuda", lambda: "")
    assert "for the CPU; there is a GPU: install a CUDA build of torch" in facts()["torch"]
    add_program(programs, "nvidia-smi", "NVIDIA-SMI has failed", status=9)
    assert facts()["GPU"] == "none; "


def test_a_missing_extra_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = {"torch", "umap", "huggingface_hub"}
    monkeypatch.setattr("ares.doctor.environment._has_module", lambda name: name not in missing)
    described = facts()
    assert described["torch"].startswith("not installed; needed by models: ")
    assert described["torch"].endswith("pip install 'ares-curation[models]'")
    assert "not installed: models, map, hf" in described["extras"]


def test_the_programs_and_codecs_of_videos_are_told(programs: Path) -> None:
    assert "no ffmpeg program" in facts()["video"]
    add_program(programs, "ffmpeg", "ffmpeg version 7.1 Copyright (c) 2000-2024 the FFmpeg developers")
    video = facts()["video"]
    assert "ffmpeg version 7.1" in video and "Copyright" not in video
    assert all(codec in video for codec in ("h264", "hevc", "av1", "vp9", "libx264"))


def test_the_workspace_is_not_opened(tmp_path: Path) -> None:
    path = str(tmp_path / "ws")
    open_workspace(path, Settings()).close()
    assert facts(path)["workspace"] == f"{path}, format 3, annotations in sqlite; "
    (tmp_path / "ws" / "workspace.json").write_text("{")
    assert "cannot be read" in facts(path)["workspace"]
    assert "on an object store" in facts("s3://lab/curation")["workspace"]
    assert "cannot be read" in facts(f"file://{path}")["workspace"]
    assert "`ares ingest` creates one" in facts(str(tmp_path / "none"))["workspace"]


def test_settings_are_told_and_secrets_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARES_CONFIG", str(tmp_path / "ares.toml"))
    monkeypatch.setenv("ARES_CACHE", "/tmp/elsewhere")
    monkeypatch.setenv("ARES_APP_PASSWORD", "hidden")
    (tmp_path / "ares.toml").write_text('judge_model = "stub:x"\n')
    described = facts()["settings"]
    assert str(tmp_path / "ares.toml") in described and "ARES_CACHE=/tmp/elsewhere" in described
    assert "ARES_APP_PASSWORD=***" in described and "hidden" not in described
    (tmp_path / "ares.toml").write_text("wrong = 1\n")
    assert "cannot be read: unknown key 'wrong'" in facts()["settings"]
