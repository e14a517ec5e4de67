"""What ends a run before all was done has a line and an exit status of its own, and fails no episode."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request

import pytest

import ares
from ares.errors import ModelError
from tests.workspaces import CommandResult, copy_workspace

EPISODES = 12
RunAres = Callable[..., CommandResult]


pytestmark = pytest.mark.usefixtures("quick_retries")


@pytest.fixture
def workspace(video_folder: Path, tmp_path: Path) -> str:
    return str(copy_workspace(video_folder, tmp_path / "w"))


@pytest.fixture
def silent_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """The address of a hub that takes connections and never answers; nothing is in the cache."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
        yield address


def test_a_spent_budget(
    workspace: str, model_server: Any, monkeypatch: pytest.MonkeyPatch, run_ares: RunAres
) -> None:
    monkeypatch.setenv("ARES_PRICE", "1,10")
    model_server.captions("push the drawer closed")
    command = ["annotate", "caption", "--model", f"openai:Some/Vlm-7B@{model_server.url}", "-w", workspace]
    cut = run_ares(*command, "--budget", "0.012", "--json")
    assert cut.status == 3
    assert cut.json["kept"] and not cut.json["failed"] and cut.json["kept"] + cut.json["open"] == EPISODES
    assert cut.err.splitlines()[-1] == (
        "ares annotate: caption: the budget is spent; a larger --budget goes on; "
        f"{cut.json['open']} are open: the same command goes on"
    )
    assert not run_ares("failures", "list", "-w", workspace, "--json").json
    rest = run_ares(*command, "--json")
    assert rest.status == 0 and rest.json["kept"] + rest.json["already"] == EPISODES


@pytest.mark.parametrize("answers_at_first", [True, False])
def test_a_server_that_fails_every_request(
    answers_at_first: bool,
    workspace: str,
    model_server: Any,
    monkeypatch: pytest.MonkeyPatch,
    run_ares: RunAres,
) -> None:
    monkeypatch.setattr("ares_annotators.runner.annotator_run._MAX_REPEATED_FAILURES", 3)
    # One call at a time: those in flight when a server is given up have failed, too.
    monkeypatch.setattr("ares_annotators.caption.annotator.call_limit", lambda vlm: lambda: 1)
    if answers_at_first:
        model_server.captions("push the drawer closed")
    for code in (500, 502, 500):
        model_server.fails(code)
    model = f"openai:Some/Vlm-7B@{model_server.url}"
    result = run_ares("annotate", "caption", "--model", model, "-w", workspace, "--json")
    last_line = result.err.splitlines()[-1]
    assert result.status == 4
    assert "model server answered 500" in last_line and model_server.url in last_line
    failures = run_ares("failures", "list", "-w", workspace, "--json").json
    if answers_at_first:
        assert "given up after 3 failures in a row" in last_line
        failed = result.json["failed"]
        assert failed == len(failures) < EPISODES == failed + result.json["open"]
    else:
        assert "the test call failed" in last_line and not failures


@pytest.mark.slow
def test_without_a_network_what_can_run_does(workspace: str, tmp_path: Path) -> None:
    """The first line of README: motion needs no model; what is missing is named with what it takes."""
    env = {
        **{key: value for key, value in os.environ.items() if not key.startswith(("HF_", "ARES_"))},
        "HF_ENDPOINT": "http://127.0.0.1:9",
        "HF_HOME": str(tmp_path / "hub"),
    }
    arguments = ["annotate", "motion", "embed", "caption", "-w", workspace, "--json"]
    done = subprocess.run([sys.executable, "-m", "ares", *arguments], capture_output=True, text=True, env=env)
    motion, embed, caption = json.loads(done.stdout)
    assert done.returncode == 1 and motion["kept"] == EPISODES
    assert embed["open"] == caption["open"] == EPISODES and not embed["failed"] + caption["failed"]
    lines = done.stderr.splitlines()
    assert any("embed" in line and "0.61 GB of files" in line for line in lines)
    line = next(line for line in lines if "Qwen/Qwen3-VL-4B-Instruct" in line)
    assert "8.9 GB of files, 10.6 GB of memory" in line and "--model hf:FOLDER" in line


def test_a_hub_that_hangs_is_asked_once(
    silent_hub: str, workspace: str, monkeypatch: pytest.MonkeyPatch, run_ares: RunAres
) -> None:
    asked: list[str] = []

    def probe(request: Request, timeout: float) -> None:
        asked.append(request.full_url)
        port = int(request.full_url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout) as connection:
            connection.recv(1)

    monkeypatch.setattr("ares_annotators.models.model_info._PROBE_SECONDS", 0.2)
    monkeypatch.setattr("ares.io.model_hub.urlopen", probe)
    result = run_ares("annotate", "embed", "caption", "--limit", "1", "-w", workspace, "--json")
    assert result.status == 2
    assert result.json["error"]["reason"].startswith("the model is not on this machine")
    assert asked == [silent_hub]
    assert result.err.splitlines()[-1].startswith(
        "ares annotate: the model is not on this machine, and the hub does not answer: laion/"
    )


def test_a_model_in_a_folder_needs_no_hub(
    silent_hub: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from ares_annotators.models.huggingface.vlm import LocalModelOptions, load_huggingface

    monkeypatch.setattr(
        "ares_annotators.models.model_info.ask_hub", lambda _: pytest.fail("the hub was asked")
    )
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_huggingface(str(tmp_path), "cpu", 10, LocalModelOptions())


def test_an_annotator_without_episodes_leaves_its_columns(tmp_path: Path, run_ares: RunAres) -> None:
    """The first night may be empty: its filters must not be refused for a column that is there the night after."""
    workspace = str(tmp_path / "w")
    with ares.open(workspace, create=True):
        pass
    assert run_ares("annotate", "motion", "-w", workspace).status == 0
    shown = run_ares("search", "--where", "coalesce(idle_share, 0) < 0.9", "-w", workspace)
    assert (shown.status, "no column" in shown.err) == (0, False)
    assert run_ares("doctor", "-w", workspace).status == 0
