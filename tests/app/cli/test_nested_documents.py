"""A document of 20,000 brackets, or with tags that make values strange, is refused in one line wherever one is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import ares
from annotators.runner import annotate
from app.cli.main import main
from ares.curation.lock_files import parse_lock, read_lock_document
from ares.errors import RequestError, SourceError
from ares.jobs import AnnotateRequest
from ares.rubric import read_verbs
from ingest.spec import read_spec
from tests.thinning import some_by_day

BRACKETS = "[" * 20_000
# YAML whose tags and values its parser answers with errors of its own, or endlessly.
STRANGE = (
    BRACKETS, "a: " * 20_000, "!!bool x", "!!timestamp x", "!!int ''", "a: 2001-99-99", f"a: {'9' * 5_000}",
    "&a [*a]",
)  # fmt: skip
Refuse = Callable[..., str]


@pytest.fixture
def refuse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Refuse:
    """The one line with which a command is refused, which must name no bug."""

    def run(*arguments: str) -> str:
        try:
            status = main(list(arguments))
        except SystemExit as error:  # of the parser of arguments
            status = int(str(error.code))
        printed = capsys.readouterr()
        lines = [line for line in printed.err.splitlines() if line.startswith("ares")]
        assert status == 2 and len(lines) == 1 and len(lines[0]) < 1_000, (arguments, status, printed)
        return lines[0]

    return run


@pytest.fixture
def workspace(tmp_path: Path) -> str:
    path = str(tmp_path / "ws")
    ares.open(path, create=True).close()
    return path


@pytest.mark.parametrize("text", some_by_day(STRANGE, 2), ids=lambda text: text[:14])
def test_a_strange_yaml_file_is_refused(
    text: str, refuse: Refuse, workspace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "strange.yaml"
    file.write_text(text)
    assert "rubric" in refuse("rubric", "check", str(file))
    with pytest.raises(RequestError, match="verb"):
        read_verbs(str(file))
    with pytest.raises(SourceError, match="dataset spec is not YAML"):
        read_spec(file)
    assert "options file" in refuse("ingest", str(tmp_path), "--options", str(file), "-w", workspace)
    combination = ("annotate", "success", "--dry-run", "--model", "stub:yes", "--combination", str(file))
    assert "combination" in refuse(*combination, "-w", workspace)
    monkeypatch.setenv("ARES_MODEL_FAMILIES", str(file))
    assert "families" in refuse("models")


def test_a_spec_is_like_a_built_in_one_only(tmp_path: Path) -> None:
    for like in (tmp_path / "a", "../specs/droid", "x"):
        (tmp_path / "a.yaml").write_text(f"like: {like}\n")  # the first is like itself
        with pytest.raises(SourceError, match=r"dataset spec is like no built-in one: .* droid"):
            read_spec(tmp_path / "a.yaml")


def test_nested_json_is_refused(refuse: Refuse, workspace: str, tmp_path: Path) -> None:
    lock = tmp_path / "set.lock"
    lock.write_text(BRACKETS)
    with pytest.raises(RequestError, match="the lock file cannot be read"):
        parse_lock(read_lock_document(lock), lock)
    baseline = ("check", str(tmp_path), "--baseline", str(lock))
    assert "baseline" in refuse(*baseline)
    (Path(workspace) / "workspace.json").write_text(BRACKETS)
    assert "workspace.json" in refuse("status", "-w", workspace)


@pytest.mark.parametrize("opening", ["(", "NOT ", "-", "a AND ("])
def test_a_nested_filter_is_refused(opening: str, refuse: Refuse, workspace: str) -> None:
    for command in (["search"], ["tag", "add", "x"], ["annotate", "motion", "--dry-run"]):
        refuse(*command, "--where", opening * 20_000, "-w", workspace)


@pytest.mark.parametrize(
    "arguments",
    [
        *(["annotate", "motion", "--budget", value] for value in ("nan", "inf", "-1", "1e400")),
        *(["annotate", "motion", "--per-worker", f"memory_gb={value}"] for value in ("nan", "inf", "-1")),
        *(["annotate", "motion", "--workers", value] for value in ("nan", "-1", "0", "1e9")),
        *(["app", "--query-seconds", value] for value in ("nan", "inf", "-1", "0")),
        *(["check", ".", "--audit-seed", value] for value in ("-1", "nan", "9" * 5_000)),
        *(["rubric", command, "--seed", "-1"] for command in ("attack", "compare")),
        *(["annotate", "success", "--votes", value] for value in ("-1", "nan", "inf")),
        *(["search", "x", "--min-score", value] for value in ("nan", "inf", "-1")),
        *(["ingest", ".", "--rate", value] for value in ("nan", "inf", "-1", "0")),
        *(["export", "s", "d", "--format", "lerobot", "--fps", value] for value in ("nan", "-inf", "0")),
    ],
    ids=" ".join,
)
def test_a_number_that_cannot_be_is_refused(arguments: list[str], refuse: Refuse, workspace: str) -> None:
    refuse(*arguments, "-w", workspace)


@pytest.mark.parametrize("usd", [float("nan"), float("inf")])
def test_a_budget_that_is_no_number_is_refused_from_python_too(
    usd: float, workspace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARES_PRICE", "1,1")
    with ares.open(workspace) as ws, pytest.raises(RequestError, match="a budget is not a number"):
        annotate(ws.stores, AnnotateRequest(names=("motion",), budget_usd=usd), quiet=True)
