"""What ends a run before all was done has a line and an exit status of its own, and fails no episode."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request

import pytest

from app.cli.main import main
from ares.errors import ModelError

EPISODES = 12


@pytest.fixture
def workspace(tmp_path: Path, demo_samples: Path, quick_retries: None) -> str:
    path = str(tmp_path / "w")
    assert main(["ingest", str(demo_samples / "video"), "-w", path, "-q"]) == 0
    return path


@pytest.fixture
def silent_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """The address of a hub that takes connections and never answers; nothing is in the cache."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
        yield address


def annotate(
    workspace: str, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, Any, list[str]]:
    """Exit status, document and lines on standard error."""
    capsys.readouterr()
    status = main(["annotate", *arguments, "-w", workspace, "--json"])
    output = capsys.readouterr()
    return status, json.loads(output.out or "null"), output.err.splitlines()


def failures(workspace: str, capsys: pytest.CaptureFixture[str]) -> list[Any]:
    capsys.readouterr()
    assert main(["failures", "list", "-w", workspace, "--json"]) == 0
    return list(json.loads(capsys.readouterr().out))


def test_a_spent_budget(
    workspace: str,
    model_server: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ARES_PRICE", "1,10")
    model_server.captions("push the drawer closed")
    model = ("--model", f"openai:Some/Vlm-7B@{model_server.url}")
    status, document, lines = annotate(workspace, capsys, "caption", *model, "--budget", "0.012")
    assert status == 3
    assert document["kept"] and not document["failed"] and document["kept"] + document["open"] == EPISODES
    assert lines[-1] == (
        "ares annotate: caption: the budget is spent; a larger --budget goes on; "
        f"{document['open']} are open: the same command goes on"
    )
    assert not failures(workspace, capsys)
    status, document, _ = annotate(workspace, capsys, "caption", *model)
    assert status == 0 and document["kept"] + document["already"] == EPISODES


@pytest.mark.parametrize("answers_at_first", [True, False])
def test_a_server_that_fails_every_request(
    answers_at_first: bool,
    workspace: str,
    model_server: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("annotators.runner.annotator_run._MAX_REPEATED_FAILURES", 3)
    # One call at a time: those in flight when a server is given up have failed, too.
    monkeypatch.setattr("annotators.caption.annotator.call_limit", lambda vlm: lambda: 1)
    if answers_at_first:
        model_server.captions("push the drawer closed")
    for code in (500, 502, 500):
        model_server.fails(code)
    model = ("--model", f"openai:Some/Vlm-7B@{model_server.url}")
    status, document, lines = annotate(workspace, capsys, "caption", *model)
    assert status == 4
    assert "model server answered 500" in lines[-1] and model_server.url in lines[-1]
    if answers_at_first:
        assert "given up after 3 failures in a row" in lines[-1]
        assert (
            document["failed"]
            == len(failures(workspace, capsys))
            < EPISODES
            == document["failed"] + document["open"]
        )
    else:
        assert "the test call failed" in lines[-1] and not failures(workspace, capsys)


def test_without_a_network_what_can_run_does(workspace: str, tmp_path: Path) -> None:
    """The first line of README: motion needs no model; what is missing is named with what it takes."""
    env = {
        **{key: value for key, value in os.environ.items() if not key.startswith(("HF_", "ARES_"))},
        "HF_ENDPOINT": "http://127.0.0.1:9",
        "HF_HOME": str(tmp_path / "hub"),
    }
    command = [
        sys.executable,
        "-m",
        "ares",
        "annotate",
        "motion",
        "embed",
        "caption",
        "-w",
        workspace,
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    motion, embed, caption = json.loads(done.stdout)
    assert done.returncode == 1 and motion["kept"] == EPISODES
    assert embed["open"] == caption["open"] == EPISODES and not embed["failed"] + caption["failed"]
    lines = done.stderr.splitlines()
    assert any("embed" in line and "0.61 GB of files" in line for line in lines)
    line = next(line for line in lines if "Qwen/Qwen3-VL-4B-Instruct" in line)
    assert "8.9 GB of files, 10.6 GB of memory" in line and "--model hf:FOLDER" in line


def test_a_hub_that_hangs_is_asked_once(
    silent_hub: str, workspace: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def probe(request: Request, timeout: float) -> None:
        asked.append(request.full_url)
        port = int(request.full_url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout) as connection:
            connection.recv(1)

    monkeypatch.setattr("annotators.models.model_info._PROBE_SECONDS", 0.2)
    monkeypatch.setattr("ares.io.model_hub.urlopen", probe)
    status, document, lines = annotate(workspace, capsys, "embed", "caption", "--limit", "1")
    assert status == 2 and document["error"]["reason"].startswith("the model is not on this machine")
    assert asked == [silent_hub]
    assert lines[-1].startswith(
        "ares annotate: the model is not on this machine, and the hub does not answer: laion/"
    )


def test_a_model_in_a_folder_needs_no_hub(
    silent_hub: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from annotators.models.huggingface.vlm import LocalModelOptions, load_huggingface

    monkeypatch.setattr("annotators.models.model_info.ask_hub", lambda _: pytest.fail("the hub was asked"))
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_huggingface(str(tmp_path), "cpu", 10, LocalModelOptions())
