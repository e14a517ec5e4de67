"""Files of others: checked whole before a line is stored; their answers keep their origin and count once trusted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from app.cli.main import main
from ares import open as open_workspace
from ares.review import Answer
from tests.generators.hostile_files import (
    GoodFiles,
    HostileFile,
    describe_log,
    make_good_files,
    make_hostile_file,
)

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> GoodFiles:
    """A card with answers of Ada and Ben, tags, notes and values; a workspace with the same source is beside it."""
    return make_good_files(tmp_path_factory.mktemp("foreign"))


@pytest.fixture
def run(good: GoodFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    shutil.copytree(good.workspace, tmp_path / "ws")

    def call(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main([*map(str, arguments), "-w", str(tmp_path / "ws")])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return call


def _outcomes(path: Path) -> list[bool | None]:
    with open_workspace(str(path)) as opened:
        table = opened.stores.tables.episodes
        name = "person_success"
        if name not in table.columns():
            return []
        return sorted((row[name] for row in table.read_columns(["episode_id", name]).to_pylist()), key=str)


def _states(run: Run) -> dict[tuple[str, str], tuple[bool, str]]:
    """Whether each answer counts, and its origin, by person and question."""
    rows = [
        row
        for person in ("Ada", "Ben")
        for row in json.loads(run("review", "list", "--person", person, "--json")[1])
    ]
    return {(row["person"], row["question"]): (row["counts"], row["origin"]) for row in rows}


def test_labels_of_others_are_kept_and_count_only_with_trust(
    good: GoodFiles, run: Run, tmp_path: Path
) -> None:
    ingest = ("ingest", good.source, "--labels", good.labels)
    origin = f"file {good.labels.name} sha256:{sha256(good.labels.read_bytes()).hexdigest()}"
    status, out, err = run(*ingest)
    assert status == 0, err
    assert (
        "4 answers from elsewhere not counted: Ada 3, Ben 1; the same file with --trust-answers-of Ada" in out
    )
    assert _outcomes(tmp_path / "ws") == []
    assert set(_states(run).values()) == {(False, origin)}
    assert "4 answers from elsewhere not counted" in run("status")[1]
    shown = json.loads(run("show", good.answered, "--json")[1])
    assert {row["origin"] for row in shown["uncounted_answers"]} == {origin}
    assert origin in run("show", good.answered, "--output", "table")[1].replace("\n", " ")
    status, out, err = run(*ingest, "--trust-answers-of", "Ada")
    assert status == 0 and "1 answer from elsewhere not counted: Ben 1" in out
    assert _outcomes(tmp_path / "ws") == [None, None, True]
    counts = _states(run)
    assert counts["Ada", "success"] == (True, origin) and counts["Ben", "success"] == (False, origin)
    listed = run("undo", "--list")[1]
    assert "let 3 answers of Ada in file" in listed and good.labels.name in listed
    actions = json.loads(run("undo", "--list", "--json")[1])
    number = next(action["number"] for action in actions if action["kind"] == "trust_answers")
    status, _, err = run("undo", number)
    assert status == 0, err
    assert _outcomes(tmp_path / "ws") == [None, None, None]
    assert not any(counts for counts, _ in _states(run).values())
    assert run("undo", json.loads(run("undo", "--list", "--json")[1])[0]["number"])[0] == 0
    assert _outcomes(tmp_path / "ws") == [None, None, True]
    assert run("doctor")[0] == 0


def test_a_rebuild_says_which_answers_do_not_count(
    good: GoodFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the option they do, and what people made of episodes is an action of the user here, which an undo takes."""
    rebuild = ["set", "rebuild", str(good.card), "--sources", str(good.source.parent), "-w"]
    assert main([*rebuild, str(tmp_path / "one")]) == 0
    out = capsys.readouterr().out
    assert "4 answers from elsewhere not counted: Ada 3, Ben 1" in out and "--trust-answers-of Ben" in out
    trust = ["--trust-answers-of", "Ada", "--trust-answers-of", "Ben", "--json"]
    assert main([*rebuild, str(tmp_path / "two"), *trust]) == 0
    assert json.loads(capsys.readouterr().out)["uncounted"] == {}
    with open_workspace(str(tmp_path / "two")) as opened, open_workspace(str(good.made)) as before:
        columns = ["episode_id", "person_success", "caption", "tags", "notes", "my_score"]
        both = [ws.stores.tables.episodes.read_columns(columns).to_pylist() for ws in (opened, before)]
        assert sorted(both[0], key=str) == sorted(both[1], key=str)
        answers = {row.origin for row in opened.review.answers()}
        assert answers == {f"card {good.card.name} sha256:{sha256(good.card.read_bytes()).hexdigest()}"}
    assert main(["undo", "-w", str(tmp_path / "two")]) == 0
    assert main(["doctor", "-w", str(tmp_path / "two")]) == 0


def test_answers_given_here_say_so_and_an_older_one_is_unknown(good: GoodFiles) -> None:
    with open_workspace(str(good.made)) as opened:
        assert {row.origin for row in opened.review.answers()} == {"here"}
        episode = next(iter(opened.stores.tables.episodes.ids()))
        producer = next(
            producer
            for producer in opened.stores.annotations.producers().values()
            if producer.kind == "person"
        )
        (annotation, *_) = opened.stores.annotations.find_annotations(
            [good.answered], maker_ids=[producer.maker_id]
        )
        assert episode and annotation.value["origin"] == "here"


def test_a_name_that_the_file_does_not_have_stores_nothing(good: GoodFiles, run: Run, tmp_path: Path) -> None:
    before = describe_log(tmp_path / "ws")
    status, _, err = run("ingest", good.source, "--labels", good.labels, "--trust-answers-of", "Adda")
    assert status == 2 and "no answers of 'Adda': there are those of: Ada, Ben" in err
    assert run("ingest", good.source, "--trust-answers-of", "Ada")[0] == 2
    assert describe_log(tmp_path / "ws") == before


def test_an_imported_answer_waits_for_trust_and_the_own_word_stays(
    run: Run, good: GoodFiles, tmp_path: Path
) -> None:
    """What Ada says here stands again after the file is no longer trusted."""
    with open_workspace(str(tmp_path / "ws")) as opened:
        episode = sorted(opened.stores.tables.episodes.ids())[0]
        opened.review.give(
            Answer(
                question="success",
                subject_id=episode,
                subject_kind="episode",
                verdict="success",
                person="Ada",
            )
        )
    path = tmp_path / "answers.jsonl"
    row = {"question": "success", "subject_id": episode, "verdict": "failure", "person": "Ada"}
    path.write_text(json.dumps(row))

    def outcome() -> list[bool | None]:
        return [value for value in _outcomes(tmp_path / "ws") if value is not None]

    status, out, _ = run("review", "import", path, "--json")
    assert (status, json.loads(out)["uncounted"], outcome()) == (0, {"Ada": 1}, [True])
    again = json.loads(run("review", "import", path, "--trust-answers-of", "Ada", "--json")[1])
    assert (again["stored"], again["trusted"], outcome()) == (0, 1, [False])
    assert run("undo")[0] == 0
    assert outcome() == [True]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"document": ["actions", "000000001", {"kind": "remove"}]}, "no documents of the kind 'actions'"),
        ({"document": ["sets", "../../x", {}]}, "no documents of the kind 'sets'"),
        ({"document": ["certificates", "x@000001", {"precision": 1}]}, "cut: Field required"),
        ({"document": ["pins", "caption", "ffffffffffffffff"]}, "these are no labels"),
    ],
)
def test_documents_that_no_card_may_carry_are_refused(
    good: GoodFiles, run: Run, tmp_path: Path, line: dict[str, Any], reason: str
) -> None:
    before = describe_log(tmp_path / "ws")
    path = tmp_path / "bad.labels.jsonl"
    path.write_text(good.labels.read_text() + json.dumps(line) + "\n")
    status, _, err = run("ingest", good.source, "--labels", path)
    assert status == 2 and reason in err and len(err.splitlines()) == 1, err
    assert describe_log(tmp_path / "ws") == before
    assert run("status")[0] == 0


def test_a_model_that_speaks_for_people_is_refused(good: GoodFiles, run: Run, tmp_path: Path) -> None:
    """A producer that says it is code, and fills the columns of people or takes the name of a person."""
    lines = [json.loads(line) for line in good.labels.read_text().splitlines()]
    path, before = tmp_path / "bad.labels.jsonl", describe_log(tmp_path / "ws")
    for producer in [line["maker"] for line in lines if line.get("maker", {}).get("kind") == "person"]:
        producer["kind"] = "code"
        path.write_text("\n".join(map(json.dumps, lines)))
        status, _, err = run("ingest", good.source, "--labels", path)
        assert status == 2 and "speaks for a person" in err, err
        producer["kind"] = "person"
    assert describe_log(tmp_path / "ws") == before


def test_a_lock_with_a_path_for_a_name_makes_no_set(
    good: GoodFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = good.copy_to(tmp_path)
    document = json.loads(card.read_text())
    card.write_text(json.dumps({**document, "name": "../../x"}))
    capsys.readouterr()
    assert (
        main(["set", "rebuild", str(card), "--sources", str(good.source.parent), "-w", str(tmp_path / "ws")])
        == 2
    )
    assert "that cannot be the name of a set" in capsys.readouterr().err
    assert describe_log(tmp_path / "ws") == (0, {})


def _give(run: Callable[..., int], good: GoodFiles, bent: HostileFile, workspace: Path) -> int:
    """Give a bent file to the command that reads such files."""
    if bent.kind == "labels":
        trust = ["--trust-answers-of", "Ada"] if "Ada" in bent.what else []
        return run("ingest", good.source, "--labels", bent.path, *trust, workspace=workspace)
    if bent.kind == "answers":
        return run("review", "import", bent.path, workspace=workspace)
    return run("set", "rebuild", bent.path, "--sources", good.source.parent, workspace=workspace)


_SEEDS_BY_DAY, _SEEDS = 42, 300


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(start, start + 6), marks=[] if start < _SEEDS_BY_DAY else [pytest.mark.nightly])
        for start in range(0, _SEEDS, 6)
    ],
    ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}",
)
def test_hostile_files_are_refused_or_counted_and_break_nothing(
    good: GoodFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str], seeds: range
) -> None:
    """Exit 2 and nothing is stored; or what is not bent is stored, and every reader goes on."""

    def call(*arguments: object, workspace: Path) -> int:
        return main([*map(str, arguments), "-w", str(workspace)])

    faults, accepted, refused = list[str](), list[str](), 0
    for seed in seeds:
        folder = tmp_path / str(seed)
        folder.mkdir()
        bent = make_hostile_file(good, folder, seed)
        workspace = folder / "ws"
        if bent.kind in ("labels", "answers"):
            shutil.copytree(good.made if bent.kind == "answers" else good.workspace, workspace)
        before = describe_log(workspace)
        capsys.readouterr()
        status = _give(call, good, bent, workspace)
        err = capsys.readouterr().err
        label = f"{seed} {bent.kind}, {bent.what}: exit {status}, {err[-400:]!r}"
        refused += status == 2
        if status != 2:
            accepted.append(label[:150])
        if status not in (0, 1, 2) or "bug of ARES" in err or "Traceback" in err:
            faults.append(label)
        elif status == 2 and (describe_log(workspace) != before or len(err.splitlines()) != 1):
            faults.append(f"{label}; stored: {describe_log(workspace)[0]}")
        readers = (("status",), ("undo", "--list"), ("review", "list"), ("set", "list"), ("doctor",))
        for words in (*readers, ("show", good.answered)) if (workspace / "workspace.json").exists() else ():
            words = words if before[0] or words[0] != "show" or status != 2 else ("status",)
            code = call(*words, workspace=workspace)
            printed = capsys.readouterr()
            if code != 0 and not (words[0] == "show" and "no such episode" in printed.err):
                faults.append(f"{label}; then {words}: exit {code}, {(printed.err or printed.out)[-300:]!r}")
    assert not faults, "\n".join(faults)
    print(f"refused {refused} of {len(seeds)}", *accepted, sep="\n")
