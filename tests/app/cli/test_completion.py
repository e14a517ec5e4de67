"""Tab completion: commands, options, their values and names of the workspace, in a real bash."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from app.cli.main import main
from app.cli.shell.candidates import complete

ARES = Path(sys.executable).with_name("ares")


@pytest.fixture(scope="module")
def workspace(demo_samples: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("completion") / "w")
    assert main(["ingest", "-w", path, str(demo_samples / "video"), "--limit", "1", "-q"]) == 0
    assert main(["set", "create", "accepted", "-w", path]) == 0
    return path


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("se", {"search", "set"}),
        ("-w x stat", {"status"}),
        ("search --li", {"--limit", "--like"}),
        ("search --output ", {"table", "json", "jsonl", "csv"}),
        ("search --output=j", {"--output=json", "--output=jsonl"}),
        ("annotate cap", {"caption"}),
        ("annotate caption mot", {"motion"}),
        ("export --format p", {"parquet"}),
        ("set l", {"list", "lock"}),
        ("search mug --by fr", {"frames"}),
        ("completion f", {"fish"}),
        ("ingest x --engine ", {"local", "ray"}),
        ("search 'mug' ", set()),
        ("ingest ", set()),
    ],
)
def test_what_may_follow(line: str, words: set[str]) -> None:
    assert {candidate.text for candidate in complete(line.split(" "))} == words


def test_sets_of_the_workspace_follow(workspace: str) -> None:
    for command in (["set", "show"], ["export"], ["set", "diff", "accepted"]):
        assert [candidate.text for candidate in complete([*command, "-w", workspace, "a"])] == ["accepted"]
    assert complete(["set", "show", "-w", "/nowhere", ""]) == []


def in_bash(line: str) -> list[str]:
    """The completions of a line in bash, as its readline asks for them."""
    script = f"""
    source <({ARES} completion bash)
    COMP_LINE={line!r}; COMP_POINT=${{#COMP_LINE}}
    _ares_complete
    printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    process = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert process.stderr == ""
    return process.stdout.split()


def test_bash_completes() -> None:
    assert in_bash(f"{ARES} se") == ["search", "set"]
    assert in_bash(f"{ARES} search --output ") == ["table", "json", "jsonl", "csv"]
    # bash splits words at "=" and replaces only what follows.
    assert in_bash(f"{ARES} search --output=c") == ["csv"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_has_a_script_that_asks_ares(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert f"completion {shell} --words" in capsys.readouterr().out


def test_completion_loads_no_heavy_library() -> None:
    heavy = ["torch", "lance", "pandas", "numpy", "pyarrow", "rich"]
    code = (
        "import sys; from app.cli.main import main; main(['completion', 'fish', '--words', 'ares', 'search', '--l']); "
        f"sys.exit(str([name for name in {heavy} if name in sys.modules] or ''))"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert process.stderr.strip() == "" and "--limit\tmost episodes" in process.stdout
