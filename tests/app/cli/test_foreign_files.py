"""Files of others: checked whole before a line is stored; their answers keep their origin and count once trusted."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from ares import open as open_workspace
from ares.review import Answer
from tests.app.cli.conftest import Refused
from tests.generators.hostile_files import (
    GoodFiles,
    HostileFile,
    describe_log,
    make_good_files,
    make_hostile_file,
    write_card,
)
from tests.workspaces import CommandResult, copy_workspace

Run = Callable[..., CommandResult]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> GoodFiles:
    """A card with answers of Ada and Ben, tags, notes and values; a workspace with the same source is beside it."""
    return make_good_files(tmp_path_factory.mktemp("foreign"))


@pytest.fixture
def ws(good: GoodFiles, tmp_path: Path) -> Path:
    return copy_workspace(good.workspace, tmp_path / "ws")


@pytest.fixture
def run(ws: Path, run_ares: Run) -> Run:
    return lambda *arguments: run_ares(*arguments, "-w", ws)


def _outcomes(path: Path) -> list[bool | None]:
    with open_workspace(str(path)) as opened:
        table = opened.stores.tables.episodes
        name = "person_success"
        if name not in table.columns():
            return []
        return sorted((row[name] for row in table.read_columns(["episode_id", name]).to_pylist()), key=str)


def _states(run: Run) -> dict[tuple[str, str], tuple[bool, str]]:
    """Whether each answer counts, and its origin, by person and question."""
    listed = [run("review", "list", "--person", person, "--json").json for person in ("Ada", "Ben")]
    return {
        (row["person"], row["question"]): (row["counts"], row["origin"]) for rows in listed for row in rows
    }


def _rebuild(good: GoodFiles) -> tuple[object, ...]:
    return ("set", "rebuild", good.card, good.source.parent)


def test_texts_that_rest_on_people_without_trust_are_asked_about(
    good: GoodFiles, tmp_path: Path, run_ares: Run
) -> None:
    """Ada corrects the instruction of an episode, and nobody trusts her there: which text shall the set have?"""
    with open_workspace(copy_workspace(good.made, tmp_path / "made")) as opened:
        answer = Answer(
            question="instruction", subject_id=good.answered, subject_kind="episode", verdict="unmet",
            person="Ada", text="lift the cube",
        )  # fmt: skip
        opened.review.give(answer)
        opened.sets["all"].write_lock(tmp_path / "later.json")
    rebuild = ("set", "rebuild", tmp_path / "later.json", good.source.parent)
    own = (*rebuild, "-w", tmp_path / "new", "--json")
    asked = run_ares(*own)
    (difference,) = asked.json["differences"]
    assert (asked.status, asked.json["set"], difference["kind"]) == (1, "", "text")
    assert difference["name"].startswith(good.answered) and "instruction ''" in difference["actual"]
    assert "say which texts" in run_ares(*rebuild, "-w", tmp_path / "new").out
    made = run_ares(*own, "--accept-texts")
    assert (made.status, made.json["set"], made.json["uncounted"]) == (0, "all@1", {"Ada": 3, "Ben": 1})
    trusted = run_ares(*own, "--trust-answers-of", "Ada")
    assert (trusted.status, trusted.json["differences"]) == (0, [])


def test_labels_of_others_are_kept_and_count_only_with_trust(
    good: GoodFiles, tmp_path: Path, run_ares: Run
) -> None:
    ws = tmp_path / "new"

    def run(*arguments: object) -> CommandResult:
        return run_ares(*arguments, "-w", ws)

    rebuild = _rebuild(good)
    origin = f"card {good.card.name} sha256:{sha256(good.card.read_bytes()).hexdigest()}"
    uncounted = "4 answers from elsewhere not counted"
    said = f"{uncounted}: Ada 3, Ben 1; the same file with --trust-answers-of Ada"
    assert said in run(*rebuild).out
    assert _outcomes(ws) == []
    assert set(_states(run).values()) == {(False, origin)}
    assert uncounted in run("status").out
    shown = run("show", good.answered, "--json").json
    assert {row["origin"] for row in shown["uncounted_answers"]} == {origin}
    assert origin in run("show", good.answered, "--output", "table").out.replace("\n", " ")
    done = run(*rebuild, "--trust-answers-of", "Ada")
    assert done.status == 0 and "1 answer from elsewhere not counted: Ben 1" in done.out
    assert _outcomes(ws) == [None, None, True]
    counts = _states(run)
    assert counts["Ada", "success"] == (True, origin) and counts["Ben", "success"] == (False, origin)
    listed = run("undo", "--list").out
    assert "let 3 answers of Ada in card" in listed and good.card.name in listed
    actions = run("undo", "--list", "--json").json
    number = next(action["number"] for action in actions if action["kind"] == "trust_answers")
    assert run("undo", number).status == 0
    assert _outcomes(ws) == [None, None, None]
    assert not any(counts for counts, _ in _states(run).values())
    assert run("undo", run("undo", "--list", "--json").json[0]["number"]).status == 0
    assert _outcomes(ws) == [None, None, True]
    assert run("doctor").status == 0


@pytest.mark.slow
def test_a_rebuild_says_which_answers_do_not_count(good: GoodFiles, tmp_path: Path, run_ares: Run) -> None:
    """With the option they do, and what people made of episodes is an action of the user here, which an undo takes."""
    rebuild = (*_rebuild(good), "-w")
    out = run_ares(*_rebuild(good), "-w", tmp_path / "one").out
    assert "4 answers from elsewhere not counted: Ada 3, Ben 1" in out and "--trust-answers-of Ben" in out
    trust = ("--trust-answers-of", "Ada", "--trust-answers-of", "Ben", "--json")
    assert run_ares(*rebuild, tmp_path / "two", *trust).json["uncounted"] == {}
    with open_workspace(str(tmp_path / "two")) as opened, open_workspace(str(good.made)) as before:
        columns = ["episode_id", "person_success", "caption", "tags", "notes", "my_score"]
        both = [ws.stores.tables.episodes.read_columns(columns).to_pylist() for ws in (opened, before)]
        assert sorted(both[0], key=str) == sorted(both[1], key=str)
        answers = {row.origin for row in opened.review.answers()}
        assert answers == {f"card {good.card.name} sha256:{sha256(good.card.read_bytes()).hexdigest()}"}
    for command in ("undo", "doctor"):
        assert run_ares(command, "-w", tmp_path / "two").status == 0


def test_answers_given_here_say_so(good: GoodFiles) -> None:
    with open_workspace(str(good.made)) as opened:
        assert {row.origin for row in opened.review.answers()} == {"here"}
        producers = opened.stores.annotations.producers()
        maker_id = next(id for id, producer in producers.items() if producer.kind == "person")
        (row, *_) = opened.stores.annotations.find_annotations([good.answered], maker_ids=[maker_id])
        assert row.value["origin"] == "here"


def test_a_name_that_the_file_does_not_have_stores_nothing(
    good: GoodFiles, tmp_path: Path, run_ares: Run
) -> None:
    done = run_ares(*_rebuild(good), "--trust-answers-of", "Adda", "-w", tmp_path / "new")
    assert done.status == 2 and "no answers of 'Adda': there are those of: Ada, Ben" in done.err
    assert describe_log(tmp_path / "new") == (0, {})


def test_an_imported_answer_waits_for_trust_and_the_own_word_stays(
    run: Run, ws: Path, tmp_path: Path
) -> None:
    """What Ada says here stands again after the file is no longer trusted."""
    with open_workspace(str(ws)) as opened:
        episode = min(opened.stores.tables.episodes.ids())
        answer = Answer(
            question="success", subject_id=episode, subject_kind="episode", verdict="success", person="Ada"
        )
        opened.review.give(answer)
    path = tmp_path / "answers.jsonl"
    row = {"question": "success", "subject_id": episode, "verdict": "failure", "person": "Ada"}
    path.write_text(json.dumps(row))

    def outcome() -> list[bool | None]:
        return [value for value in _outcomes(ws) if value is not None]

    first = run("review", "import", path, "--json")
    assert (first.status, first.json["uncounted"], outcome()) == (0, {"Ada": 1}, [True])
    again = run("review", "import", path, "--trust-answers-of", "Ada", "--json").json
    assert (again["stored"], again["trusted"], outcome()) == (0, 1, [False])
    assert run("undo").status == 0
    assert outcome() == [True]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"document": ["actions", "000000001", {"kind": "remove"}]}, "no documents of the kind 'actions'"),
        ({"document": ["sets", "../../x", {}]}, "no documents of the kind 'sets'"),
        ({"document": ["review_queues", "measure-1", {"name": "x"}]}, "question: Field required"),
        ({"document": ["review_items", "measure-1/000000", [{"subject": 1}]]}, "0.subject"),
        ({"document": ["pins", "caption", "ffffffffffffffff"]}, "these are no labels"),
    ],
)
def test_documents_that_no_card_may_carry_are_refused(
    good: GoodFiles, refused: Refused, tmp_path: Path, line: dict[str, Any], reason: str
) -> None:
    card = write_card(good.card, tmp_path, good.labels.read_text() + json.dumps(line) + "\n")
    new = (good.source.parent, "-w", tmp_path / "new")
    assert reason in refused("set", "rebuild", card, *new)
    assert describe_log(tmp_path / "new") == (0, {})


def test_a_model_that_speaks_for_people_is_refused(good: GoodFiles, refused: Refused, tmp_path: Path) -> None:
    """A producer that says it is code, and fills the columns of people or takes the name of a person."""
    lines = [json.loads(line) for line in good.labels.read_text().splitlines()]
    new = (good.source.parent, "-w", tmp_path / "new")
    for producer in [line["maker"] for line in lines if line.get("maker", {}).get("kind") == "person"]:
        producer["kind"] = "code"
        card = write_card(good.card, tmp_path, "\n".join(map(json.dumps, lines)))
        assert "speaks for a person" in refused("set", "rebuild", card, *new)
        producer["kind"] = "person"
    assert describe_log(tmp_path / "new") == (0, {})


def test_a_lock_with_a_path_for_a_name_makes_no_set(
    good: GoodFiles, tmp_path: Path, refused: Refused
) -> None:
    card = good.copy_to(tmp_path)
    card.write_text(json.dumps({**json.loads(card.read_text()), "name": "../../x"}))
    line = refused("set", "rebuild", card, good.source.parent, "-w", tmp_path / "new")
    assert "that cannot be the name of a set" in line
    assert describe_log(tmp_path / "new") == (0, {})


def _give(run: Run, good: GoodFiles, bent: HostileFile, workspace: Path) -> CommandResult:
    """Give a bent file to the command that reads such files."""
    own = ("-w", workspace)
    if bent.kind == "answers":
        return run("review", "import", bent.path, *own)
    return run("set", "rebuild", bent.path, good.source.parent, *own)


def _suite(start: int) -> list[pytest.MarkDecorator]:
    return [] if start < 12 else [pytest.mark.slow] if start < 42 else [pytest.mark.nightly]


@pytest.mark.parametrize(
    "seeds",
    [pytest.param(range(start, start + 6), marks=_suite(start)) for start in range(0, 300, 6)],
    ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}",
)
def test_hostile_files_are_refused_or_counted_and_break_nothing(
    good: GoodFiles, tmp_path: Path, run_ares: Run, seeds: range
) -> None:
    """Exit 2 and nothing is stored; or what is not bent is stored, and every reader goes on."""
    faults = list[str]()
    for seed in seeds:
        folder, workspace = tmp_path / str(seed), tmp_path / str(seed) / "ws"
        folder.mkdir()
        bent = make_hostile_file(good, folder, seed)
        if bent.kind == "answers":
            copy_workspace(good.made, workspace)
        before = describe_log(workspace)
        done = _give(run_ares, good, bent, workspace)
        label = f"{seed} {bent.kind}, {bent.what}: exit {done.status}, {done.err[-400:]!r}"
        if done.status not in (0, 1, 2) or "bug of ARES" in done.err or "Traceback" in done.err:
            faults.append(label)
        elif done.status == 2 and (describe_log(workspace) != before or len(done.err.splitlines()) != 1):
            faults.append(f"{label}; stored: {describe_log(workspace)[0]}")
        readers = [("status",), ("undo", "--list"), ("review", "list"), ("set", "list"), ("doctor",)]
        if before[0] or done.status != 2:
            readers.append(("show", good.answered))
        for words in readers if (workspace / "workspace.json").exists() else ():
            read = run_ares(*words, "-w", workspace)
            if read.status != 0 and not (words[0] == "show" and "no such episode" in read.err):
                faults.append(f"{label}; then {words}: exit {read.status}, {(read.err or read.out)[-300:]!r}")
    assert not faults, "\n".join(faults)
