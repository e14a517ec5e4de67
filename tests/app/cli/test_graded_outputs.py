"""Where a user finds verdicts and that a judge is refuted: search, show, and exports."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ares.annotation import Annotation
from ares.formats import parse_tf_example, read_record, scan_record_file
from ares.settings import Settings
from ares.workspace import open_workspace
from tests.ares.grade_producers import CAPTIONER, JUDGE, graded_caption
from tests.ingesting import ingest_paths
from tests.workspaces import CommandResult

Output = Callable[..., str]
_WORDS = "graded acceptable by a refuted judge: does not count"


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> str:
    """Two of three episodes have a caption that is accepted by a judge who accepts captions of other episodes, too."""
    path = str(tmp_path_factory.mktemp("graded") / "w")
    with open_workspace(path, Settings()) as workspace:
        stores = workspace.stores
        ingest_paths(stores, [str(demo_samples / "video")], limit=3, quiet=True)
        for producer in (CAPTIONER, JUDGE):
            stores.annotations.add_producer(producer)
        for episode in sorted(stores.tables.episodes.ids())[:2]:
            stores.annotations.append([_with_raw(annotation) for annotation in graded_caption(episode)])
        stores.sync()
        workspace.sets.create("graded", where="grade_verb = 'MET'")
    return path


def _with_raw(annotation: Annotation) -> Annotation:
    """A caption as a model leaves it: with the reply that it was read from."""
    if annotation.name != "caption":
        return annotation
    return replace(annotation, value={**annotation.value, "raw": "I say: open the drawer"})


@pytest.fixture
def output(graded: str, run_ares: Callable[..., CommandResult]) -> Callable[..., str]:
    return lambda *arguments: run_ares(*arguments, "-w", graded).out


def test_a_filter_alone_lists_its_episodes(output: Output) -> None:
    hits = json.loads(output("search", "--where", "grade_verb = 'MET'", "--json"))
    assert [(hit["grade"], hit["grade_refuted"]) for hit in hits] == [("acceptable", True)] * 2
    assert {hit["acceptable"] for hit in hits} == {None}, "what a refuted judge says is no decision"
    (ungraded,) = json.loads(output("search", "--where", "grade IS NULL", "--json"))
    assert ungraded["grade_refuted"] is None
    header, row = output("search", "--where", "grade_verb = 'MET'", "--limit", "1").splitlines()
    assert "grade" in header.split() and _WORDS in row
    assert output("search", "--where", "grade_verb = 'UNMET'").strip() == "nothing found"
    assert output("search", "open the drawer").count(_WORDS) == 2, "a search with words, too"


def test_an_episode_says_what_its_judge_is_worth_and_the_raw_reply_in_json_alone(output: Output) -> None:
    (episode, *_) = json.loads(output("search", "--where", "grade IS NOT NULL", "--json"))
    shown = output("show", episode["episode_id"])
    assert f"grade        {_WORDS}" in shown
    assert "open the drawer" in shown and "I say" not in shown
    assert "I say: open the drawer" in output("show", episode["episode_id"], "--json")


@pytest.mark.parametrize("format", ["lerobot", "lerobot-v2.1", "rlds", "parquet"])
def test_an_export_holds_verdicts_and_that_they_do_not_count(
    output: Output, format: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    output("export", "graded", out, "--format", format, "-q")
    rows = list(_exported_rows(out, format))
    assert [(row["grade"], row["grade_refuted"], row["grade_verb"]) for row in rows] == [
        ("acceptable", True, "MET")
    ] * 2
    tripwire = json.loads((out / "manifest.json").read_text())["judge_tripwire"]
    assert tripwire[JUDGE.maker_id]["video"]["state"] == "refuted"
    assert (
        "**Graded by a refuted judge, which does not count**: captions of 2 episodes."
        in (out / "README.md").read_text()
    )


def test_captions_of_a_refuted_judge_leave_only_where_they_are_asked_for(
    output: Output, tmp_path: Path
) -> None:
    def task_sources(name: str, *options: str) -> Any:
        words = ("--format", "jsonl", "--task", "caption", "--json", "-q", *options)
        return json.loads(output("export", "graded", tmp_path / name, *words))["task_sources"]

    assert task_sources("without") == {"instruction": 2, "caption": 0, "none": 0}
    assert task_sources("with", "--refuted") == {"instruction": 0, "caption": 2, "none": 0}
    assert json.loads((tmp_path / "with" / "manifest.json").read_text())["export"]["refuted"] is True


def _exported_rows(out: Path, format: str) -> Any:
    if format == "rlds":
        (shard,) = out.rglob("*.tfrecord-*")
        for span in scan_record_file(str(shard)):
            features = parse_tf_example(read_record(str(shard), span)[0], "test")  # type: ignore[arg-type]
            texts = {
                name: features[f"episode_metadata/ares_{name}"].bytes_list.value[0].decode()
                for name in ("grade", "export")
            }
            refuted = features["episode_metadata/ares_grade_refuted"].int64_list.value[0] == 1
            verb = json.loads(texts["export"])["annotations"]["grade_verb"]
            yield {**texts, "grade_refuted": refuted, "grade_verb": verb}
    elif format == "lerobot-v2.1":
        for line in (out / "meta" / "episodes.jsonl").read_text().splitlines():
            yield {name.removeprefix("ares/"): value for name, value in json.loads(line).items()}
    else:
        (file,) = (
            out.rglob("episodes.parquet") if format == "parquet" else out.rglob("meta/episodes/**/*.parquet")
        )
        for row in pq.read_table(file).to_pylist():
            yield {name.removeprefix("ares/"): value for name, value in row.items()}
