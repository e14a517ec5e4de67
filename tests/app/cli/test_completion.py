"""Tab completion: commands, options, their values and names of the workspace, in a real bash."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import ares
from ares_app.cli.main import main
from tests.thinning import some_by_day

pytestmark = pytest.mark.slow
ARES = Path(sys.executable).with_name("ares")


@pytest.fixture(scope="module")
def workspace(demo_samples: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("completion") / "w"
    with ares.open(path, create=True) as opened:
        opened.ingest(demo_samples / "video", limit=1, quiet=True)
        opened.sets.create("accepted", where="true")
    return str(path)


def in_bash(line: str) -> set[str]:
    """The completions of a line in bash, as its readline asks for them."""
    script = f"""
    source <({ARES} completion bash)
    COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:'; COMP_TYPE=9
    COMP_LINE={f"{ARES} {line}"!r}; COMP_POINT=${{#COMP_LINE}}
    _python_argcomplete {ARES}
    printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    process = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=300, check=True)
    assert process.stderr == ""
    return set(process.stdout.split())


@pytest.mark.parametrize(
    ("line", "words"),
    some_by_day(
        [
            ("se", {"search", "set"}),
            ("-w x stat", {"statistics", "status"}),
            ("search --li", {"--limit", "--like"}),
            ("search --output ", {"table", "json", "jsonl", "csv"}),
            # bash splits words at "=" and replaces only what follows.
            ("search --output=j", {"json", "jsonl"}),
            ("annotate cap", {"caption"}),
            ("annotate caption mot", {"motion"}),
            ("export --format p", {"parquet"}),
            ("set l", {"list", "lock"}),
            ("search mug --by fr", {"frames"}),
            ("use cap", {"caption="}),
            ("completion f", {"fish"}),
            ("ingest x --engine ", {"local", "ray"}),
            # Nothing of ours: bash completes names of files itself.
            ("search 'a mug' ", set()),
        ],
        rows=True,
    ),
)
def test_what_may_follow(line: str, words: set[str]) -> None:
    assert in_bash(line) == words


def test_sets_of_the_workspace_follow(workspace: str) -> None:
    for command in ("set show", "export", "set diff", "set diff accepted"):
        assert in_bash(f"{command} -w {workspace} a") == {"accepted"}
    assert in_bash("set show -w /nowhere a") == set()


@pytest.mark.parametrize(
    ("shell", "start"), [("bash", "#compdef"), ("zsh", "#compdef ares"), ("fish", "\nfunction")]
)
def test_a_shell_has_a_script(shell: str, start: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert start in capsys.readouterr().out
