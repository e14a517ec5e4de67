"""Bad input: one clear line on standard error, exit status 2 (or 1 for a bad item), and nothing stored is lost."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ares
from ares.curation.lock_files import SetLock, read_lock
from ares.errors import RequestError, SourceError
from ares.jobs import AnnotateRequest
from ares.rubric import read_verbs
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from ares_annotators.runner import annotate
from ares_ingest.spec import read_spec
from tests.app.cli.conftest import Refused
from tests.thinning import some_by_day
from tests.workspaces import CommandResult

Run = Callable[..., CommandResult]
BRACKETS = "[" * 20_000
# YAML whose tags and values its parser answers with errors of its own, or endlessly.
STRANGE = (
    BRACKETS, "a: " * 20_000, "!!bool x", "!!timestamp x", "!!int ''", "a: 2001-99-99", f"a: {'9' * 5_000}",
    "&a [*a]",
)  # fmt: skip
URL = "s3://lab/x"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Iterator[Workspace]:
    """One episode in a set, which no refused command changes."""
    with open_workspace(str(tmp_path_factory.mktemp("bad_input") / "w"), Settings()) as opened:
        opened.ingest(demo_samples / "video", limit=1, quiet=True)
        opened.sets.create("all", where="true")
        yield opened


def test_a_path_without_a_dataset_leaves_no_workspace_behind(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    line = refused("ingest", "-w", tmp_path / "new", tmp_path / "empty")
    assert "is not a recognised dataset" in line and "rlds, rosbag, video" in line
    assert "no such file" in refused("ingest", "-w", tmp_path / "new", tmp_path / "nowhere")
    assert "there is no workspace" in refused("status", "-w", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_folder_of_something_else_is_never_a_workspace(
    refused: Refused, demo_samples: Path, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("notes")
    assert "is not a workspace" in refused("ingest", "-w", tmp_path, demo_samples / "video")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_video_of_zero_bytes_and_a_metadata_line_that_is_not_json(
    run_ares: Run, demo_samples: Path, tmp_path: Path
) -> None:
    shutil.copytree(demo_samples / "video", tmp_path / "other")
    (tmp_path / "other" / "videos" / "basketball_000_front.mp4").write_bytes(b"")
    lines = (tmp_path / "other" / "metadata.jsonl").read_text().splitlines()
    lines[4] = lines[4][:-10]
    (tmp_path / "other" / "metadata.jsonl").write_text("\n".join(lines) + "\n")
    done = run_ares("ingest", "-w", tmp_path / "w", tmp_path / "other", "--json")
    assert (done.status, done.json["planned"], done.json["kept"], done.json["failed"]) == (1, 12, 10, 2)
    assert run_ares("status", "-w", tmp_path / "w", "--json").json["episodes"] == 10
    examples = " ".join(row["example"] for row in done.json["failures"])
    assert "metadata.jsonl" in examples and "line 5" in examples and "basketball_000_front.mp4" in examples


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("annotate", "captoin"),
            "no annotator 'captoin': did you mean 'caption'? there are: attributes, caption, embed, grade, "
            "map, motion, segment, success",
        ),
        (
            ("ingest", ".", "--format", "rdls"),
            "no ingester 'rdls': did you mean 'rlds'? there are: agibot, csv, hdf5, images, lerobot, mcap,",
        ),
        (
            ("export", "all", "out", "--format", "zarr"),
            "no exporter 'zarr': there are: jsonl, lerobot, lerobot-lance, lerobot-v2.1, parquet, rlds",
        ),
        (("search", "x", "--where", "succes = true"), "the columns are"),
        (("search", "x", "--where", "success = "), "the filter cannot be read"),
        (("search", "--like", "0000000000000000"), "no episode '0000000000000000'"),
        (("search", "x", "--by", "frames"), "run `ares annotate embed` first"),
        (("show", "nonsense"), "no episode 'nonsense'"),
        (("set", "create", "../b"), "'../b'"),
        (("set", "create", "none", "--where", "num_steps < 0"), "empty"),
        (("set", "create", "x", "--min-precision", "0.9", "--segments"), "leave out --segments"),
        (
            ("set", "create", "x", "--min-precision", "0.9", "--dedupe"),
            "leave out --min-precision, or the rules",
        ),
        (("set", "create", "x", "--min-precision", "2"), "a share of 2 cannot be shown"),
        (("set", "show", "nope"), "no set 'nope'"),
        (("export", "nope", "out", "--format", "lerobot"), "no set 'nope'"),
        (("rubric", "show", "nope"), "no rubric 'nope': there are: caption"),
        *(
            pytest.param(
                ("annotate", name, "--model", f"{kind}:/nowhere"), "/nowhere", marks=pytest.mark.slow
            )
            for name, kind in (("embed", "local-dir"), ("caption", "hf"))
        ),
        (("annotate", "caption", "--model", "nonsense"), "nonsense"),
        (
            ("annotate", "success", "--model", "clip:ViT-B-32"),
            "'clip:ViT-B-32'; give hf:FOLDER, hf:ORG/NAME",
        ),
        (("annotate", "caption", "--budget", "1"), "ARES_PRICE"),
        (("annotate", "motion", "--options", "{per_worker: {memory_gb: .nan}}"), "memory_gb"),
        (("annotate", "motion", "--workers", "0"), "--workers"),
        (("annotate", "motion", "--limit=1e3"), "is not a number of episodes"),
        (("annotate", "success", "--options", "{annotators: {success: {votes: -1}}}"), "votes"),
        (("check", ".", "--audit-seed", "9" * 5_000), "--audit-seed"),
        (("search", "x", "--min-score", "inf"), "--min-score"),
        (("search", "x", "--limit=99999999999999999999"), "is not a number of episodes"),
        (("export", "s", "d", "--format", "lerobot", "--fps", "-inf"), "--fps"),
        (("--output", "csv", "status"), "the answer of `ares status` is no list"),
    ],
)
def test_a_wrong_request_is_one_line(
    workspace: Workspace, refused: Refused, arguments: tuple[str, ...], message: str
) -> None:
    assert message in refused(*arguments, "-w", workspace.path)
    assert workspace.stores.tables.episodes.count() == 1


@pytest.mark.parametrize("text", some_by_day(STRANGE, 4), ids=lambda text: text[:14])
def test_a_strange_yaml_file_is_refused(
    text: str, refused: Refused, workspace: Workspace, tmp_path: Path
) -> None:
    file, own = tmp_path / "strange.yaml", ("-w", workspace.path)
    file.write_text(text)
    assert "rubric" in refused("rubric", "check", file)
    with pytest.raises(RequestError, match="verb"):
        read_verbs(str(file))
    with pytest.raises(SourceError, match="dataset spec is not YAML"):
        read_spec(file)
    assert "options file" in refused("ingest", tmp_path, "--options", file, *own)
    assert "options file" in refused("annotate", "motion", "--options", file, *own)


def test_a_spec_is_like_a_built_in_one_only(tmp_path: Path) -> None:
    for like in (tmp_path / "a", "../specs/droid", "x"):
        (tmp_path / "a.yaml").write_text(f"like: {like}\n")  # the first is like itself
        with pytest.raises(SourceError, match=r"dataset spec is like no built-in one: .* droid"):
            read_spec(tmp_path / "a.yaml")


def test_nested_json_is_refused(refused: Refused, tmp_path: Path) -> None:
    lock = tmp_path / "set.lock"
    lock.write_text(BRACKETS)
    with pytest.raises(RequestError, match="the lock file cannot be read"):
        read_lock(lock, SetLock)
    ares.open(tmp_path / "ws", create=True).close()
    (tmp_path / "ws" / "workspace.json").write_text(BRACKETS)
    assert "workspace.json" in refused("status", "-w", tmp_path / "ws")


@pytest.mark.parametrize("usd", [float("nan"), float("inf")])
def test_a_budget_that_is_no_number_is_refused_from_python_too(
    usd: float, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARES_PRICE", "1,1")
    with ares.open(workspace.path) as ws, pytest.raises(RequestError, match="a budget is not a number"):
        annotate(ws.stores, AnnotateRequest(names=("motion",), budget_usd=usd), quiet=True)


@pytest.mark.parametrize(
    "command",
    [
        "export all s3:/lab/out --format parquet",
        "set create new --where true --dedupe --reasons gs://lab/x.csv",
        f"fix SAMPLES {URL}",
        f"ingest SAMPLES --dry-run --write-options hf://{URL}",
    ],
)
def test_files_of_options_go_to_no_url_and_nothing_to_a_folder_that_is_called_like_one(
    command: str,
    workspace: Workspace,
    demo_samples: Path,
    refused: Refused,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    words = command.replace("SAMPLES", str(demo_samples / "rlds")).split()
    own = [] if words[0] == "check" else ["-w", workspace.path]
    assert "this is written to a local path" in refused(*words, *own)
    assert not list(tmp_path.iterdir())


def test_a_path_of_python_that_lost_a_slash_is_refused(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stored = workspace.sets["all"]
    url = Path(URL)
    for attempt in (
        lambda: workspace.export(stored, url),
        lambda: stored.write_lock(url),
        lambda: workspace.review.export_file(url.with_suffix(".csv")),
    ):
        with pytest.raises(RequestError, match="this is written to a local path"):
            attempt()
    assert not list(tmp_path.iterdir())


def test_a_model_server_that_does_not_answer_is_named(workspace: Workspace, refused: Refused) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{probe.getsockname()[1]}/v1"
    model = f"openai:qwen@{address}"
    assert address in refused("annotate", "caption", "--model", model, "-w", workspace.path, status=4)
