"""What commands say of a workspace that an earlier version wrote, and what they write: recorded, and the same today."""

from __future__ import annotations

import argparse
import hashlib
import json
import shlex
import shutil
import sys
import tarfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ares.formats import parse_tf_example, read_record, scan_record_file
from ares_app.cli.main import COMMANDS as ARES_COMMANDS, build_parser, main
from tests.conftest import ROOT
from tests.recordings import RECORDED, comparable, compare_with_recording, without_folders, without_times

FIXTURES = RECORDED.parent
# One episode of each dataset: RLDS by reference, video copied, a duplicate of it, LeRobot by reference.
EPISODES = ("06dc169e0868dc95", "24f7e10eddd65841", "f7cdc2a835652209", "1292fd6b569268df")
COMMANDS = {
    "status": "status",
    "doctor": "doctor",
    "search-text": "search 'close the drawer' --limit 5",
    "search-captions": "search 'green drawer' --by captions --limit 5",
    "search-meaning": "search 'shut it' --by meaning --where acceptable --limit 5",
    "search-like": "search --like 24f7e10eddd65841 --limit 5",
    "search-motion": "search --like 06dc169e0868dc95 --by action --limit 5",
    "search-filter": "search drawer --where \"success AND array_has(objects, 'handle')\"",
    "set-list": "set list",
    "set-show": "set show accepted",
    "set-diff": "set diff accepted@1 drawers",
    "export-lerobot": "export accepted exports/lerobot --format lerobot",
    "export-parquet": "export drawers exports/parquet --format parquet",
    **{f"show-{episode}": f"show {episode}" for episode in EPISODES},
}
# With the sessions, every command once.
_QUICK = {
    ("status", "text"),
    ("doctor", "json"),
    ("search-text", "json"),
    ("search-meaning", "text"),
    ("set-diff", "text"),
    (f"show-{EPISODES[0]}", "json"),
}
# Commands that follow each other in one workspace.
SESSIONS = {
    "actions": (
        "tag add blurred 24f7e10eddd65841 f7cdc2a835652209",
        "tag list",
        "tag remove blurred 24f7e10eddd65841",
        "note 'the gripper slips' 24f7e10eddd65841",
        "remove 1292fd6b569268df --note 'too short' --yes",
        "undo",
        "undo --list",
        "remove --purge f7cdc2a835652209 --yes",
        "status",
    ),
    "sets": (
        "set create long --where 'num_steps > 90'",
        "set rename long longer",
        "set note longer 'more than 90 steps'",
        "set lock longer exports/lock.json",
        "set delete longer --yes",
        "set list",
    ),
    "makers": (
        "use",
        "use caption=42b1",
        "use caption=newest",
        "failures list",
        "failures accept cut --yes",
        "index",
        "rubric show caption",
        "annotate embed caption --dry-run",
        "annotate motion --where \"format = 'rlds'\"",
    ),
    "datasets": (
        "ingest SAMPLES/video --dry-run",
        "ingest SAMPLES/video --limit 2 --dataset again",
        "check SAMPLES/rlds --rate 10 --limit 2",
        "fix SAMPLES/rlds exports/fixed --rate 10 --dry-run",
    ),
    "exports": (
        "ingest SAMPLES/rlds --rate 10 --limit 2 --dataset again",
        "set create again --where \"dataset = 'again'\"",
        "export again exports/lerobot --format lerobot",
        "export again exports/lerobot-v2.1 --format lerobot-v2.1",
        "export again exports/parquet --format parquet",
        "export again exports/rlds --format rlds",
    ),
}


@pytest.fixture(scope="module")
def models(reference_models: Path) -> dict[str, str]:
    """The settings that name the models that wrote the workspace."""
    clip = f"local-dir:{reference_models / 'reference-clip'}"
    return {
        "ARES_WORKSPACE": "workspace",
        "ARES_EMBED_MODEL": clip,
        "ARES_CAPTION_MODEL": f"hf:{reference_models / 'reference-captioner'}",
        "ARES_JUDGE_MODEL": f"clip:{clip}",
    }


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory, models: dict[str, str]) -> Path:
    """The recorded workspace in today's layout, with the text encoder that a search stores beside its vectors."""
    folder = tmp_path_factory.mktemp("recorded")
    with tarfile.open(FIXTURES / "workspace_v1.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in models.items():
            patch.setenv(name, value)
        patch.chdir(folder)
        assert main(["search", "drawer", "--quiet"]) == 0
    return folder


@pytest.fixture
def workspace(
    tmp_path: Path, migrated: Path, models: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A copy of the recorded workspace in the current folder, and an empty folder `exports`."""
    shutil.copytree(migrated, tmp_path, dirs_exist_ok=True)
    (tmp_path / "exports").mkdir()
    for name, value in models.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "form"),
    [
        pytest.param(name, form, marks=[] if (name, form) in _QUICK else [pytest.mark.slow])
        for name in COMMANDS
        for form in ("text", "json")
    ],
)
def test_a_command_says_what_it_said(
    name: str, form: str, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = shlex.split(COMMANDS[name]) + ["--json"] * (form == "json")
    status = main(words)
    said = comparable(capsys.readouterr().out, workspace)
    compare_with_recording(
        f"{name}.{form}", f"{said}{_exported(workspace / 'exports')}exit status {status}\n"
    )


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name == "exports" else []) for name in SESSIONS]
)
def test_a_session_says_and_writes_what_it_did(
    name: str, workspace: Path, demo_samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = ""
    for command in SESSIONS[name]:
        words = shlex.split(command.replace("SAMPLES", str(demo_samples)))
        status = main([*words, "--json", "--quiet"])
        printed = capsys.readouterr()
        said += f"$ ares {command}\n{printed.out}{printed.err}exit status {status}\n"
    compare_with_recording(
        f"session-{name}.text", comparable(said, workspace) + _exported(workspace / "exports")
    )


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="argparse lays out its help in another way")
def test_the_help_is_the_recorded_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    commands = [_subparsers(build_parser(name))[name] for name in ARES_COMMANDS]
    parsers = [build_parser(), *(parser for top in commands for parser in (top, *_subparsers(top).values()))]
    compare_with_recording("help.text", "\n".join(parser.format_help() for parser in parsers))


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of the actions of a command, by name; none where it has no actions."""
    groups = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return {name: inner for group in groups for name, inner in group.choices.items()}


def _exported(folder: Path) -> str:
    """Files that were written, with a hash of what they hold; "" where nothing was."""
    lines = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = _content(path, folder.parent)
        lines.append(
            f"{path.relative_to(folder).as_posix()} {hashlib.sha256(content).hexdigest() if content else ''}"
        )
    return "\n".join(["", *lines, ""]) if lines else ""


def _content(path: Path, root: Path) -> bytes:
    """What a file holds that does not differ between libraries or runs: bytes of Parquet and mp4 files do."""
    if path.suffix == ".mp4":
        return b""
    if path.name == "manifest.times.json":
        return " ".join(json.loads(path.read_text())).encode()
    if path.suffix == ".parquet":
        rows = pq.read_table(path).to_pylist()
        text = without_folders(json.dumps(rows, default=_time_or_text), root)
        for sample in (ROOT / "app" / "demo" / "samples").rglob("*.*"):
            # The fingerprint of a source file has the time of its last change: that of the checkout.
            text = text.replace(f":{sample.stat().st_mtime_ns}:", ":TIME:")
        return without_times(text).encode()
    if ".tfrecord" in path.name:
        return b"".join(_features(path))
    return comparable(path.read_text(), root).encode()


def _time_or_text(value: object) -> str:
    return "TIME" if isinstance(value, datetime) else str(value)


def _features(path: Path) -> Iterator[bytes]:
    """The features of every record in the order of their names; their order in the file is any."""
    for span in scan_record_file(str(path)):
        assert not isinstance(span, Exception)
        features = parse_tf_example(read_record(str(path), span)[0], str(path))
        for name in sorted(features):
            value: bytes = features[name].SerializeToString()
            yield name.encode() + without_times(value.decode("latin-1")).encode("latin-1")
