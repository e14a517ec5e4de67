"""`ares doctor --environment` tells what the machine offers, in about ten lines, whatever is broken or missing."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from socket import create_connection, create_server

import pytest

from ares.doctor import describe_environment
from ares.doctor.environment import describe_network
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


@pytest.fixture(autouse=True)
def refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network on which every connection is refused at once."""

    def refuse(*arguments: object, **options: object) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr("socket.create_connection", refuse)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("urllib.request._opener", None)  # which keeps the proxies of its first request
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


def add_program(folder: Path, name: str, output: str, status: int = 0) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\nprintf '%s\\n' '{output}'\nexit {status}\n")
    program.chmod(0o755)


def facts(workspace: str = "") -> dict[str, str]:
    return {fact.name: f"{fact.value}; {fact.advice}" for fact in describe_environment(workspace)}


def test_without_a_workspace_there_are_about_ten_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_ares: Callable[..., CommandResult]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = run_ares("doctor", "--environment").out.splitlines()
    assert 9 <= len(lines) <= 12
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
    monkeypatch.setattr("ares.doctor.environment.hub_constants", lambda: None)
    described = facts()
    assert described["torch"] == "not installed; needed by models: pip install 'ares-curation[models]'"
    assert "not installed: models, map, hf" in described["extras"]
    assert described["model cache"].startswith("none")


def test_the_programs_and_codecs_of_videos_are_told(programs: Path) -> None:
    assert "no ffmpeg program" in facts()["video"]
    add_program(programs, "ffmpeg", "ffmpeg version 7.1 Copyright (c) 2000-2024 the FFmpeg developers")
    video = facts()["video"]
    assert "ffmpeg version 7.1" in video and "Copyright" not in video
    assert all(codec in video for codec in ("h264", "hevc", "av1", "vp9", "libx264"))


def test_a_hub_that_cannot_be_reached_is_told() -> None:
    assert "cannot be reached ([Errno 111] Connection refused); no proxy" in describe_network()


@pytest.mark.slow
def test_the_hub_is_asked_for_two_seconds_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.create_connection", create_connection)
    with create_server(("127.0.0.1", 0)) as listener:  # accepts, and never answers
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        monkeypatch.setattr("ares.io.model_hub.hub_url", lambda: address)
        asked = time.monotonic()
        assert re.search(r"cannot be reached \((timed out|no answer within 2 s)\)", describe_network())
    assert time.monotonic() - asked < 15


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("proxy.example:3128", "proxy.example:3128"),
        ("proxy:99999", "(cannot be read)"),
        ("proxy:x", "(cannot be read)"),
        ("[::1", "(cannot be read)"),
    ],
)
def test_a_proxy_is_told_without_its_password(
    address: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", f"http://user:hidden@{address}")
    assert f"proxy https {shown}" in describe_network()
    assert "hidden" not in describe_network()


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
