"""The instruction audit names a planted swap and nobody else, says how many it would find, and follows people."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from ares.curation import purge_episodes
from ares.errors import RequestError
from ares.review import Answer, InstructionAudit, QueueRequest
from ares.review.instruction_audit import AuditedEpisode, judge_instructions, normalize_instruction
from ares.settings import Settings
from ares.store import StagedIds
from ares.workspace import Workspace, open_workspace
from tests.ares.review.audited_world import TEXTS, fill_audited_world
from tests.workspaces import CommandResult, copy_workspace


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of the world, and the episode whose instruction was planted wrong."""
    folder = tmp_path_factory.mktemp("world") / "ws"
    with open_workspace(str(folder), Settings()) as opened:
        return folder, next(iter(fill_audited_world(opened.stores)))


@pytest.fixture(scope="module")
def audited(
    world: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Workspace, str]]:
    """The world, opened; each test leaves it as it was."""
    copy = copy_workspace(world[0], tmp_path_factory.mktemp("audit") / "ws")
    with open_workspace(str(copy), Settings()) as opened:
        yield opened, world[1]


def test_a_planted_swap_is_named_and_nobody_else(audited: tuple[Workspace, str]) -> None:
    workspace, planted = audited
    by_name = {audit.dataset: audit for audit in workspace.review.audit_instructions()}
    (finding,) = by_name["known"].findings
    assert (finding.episode_id, finding.instruction) == (planted, TEXTS[0])
    assert normalize_instruction(finding.proposed) == TEXTS[2]
    assert "fits less than" in str(finding) and finding.share > 0.9
    assert by_name["known"].instructions == 3, "texts that differ in case and full stops are one instruction"


def test_wordings_of_a_task_do_not_compete_and_a_swap_among_few_is_named() -> None:
    texts = [
        [f"turn knob {task}", f"please turn knob {task}", f"knob {task} has to be turned"]
        for task in range(4)
    ]
    said = [texts[task][number % 3] for task in range(4) for number in range(9)]
    said[0] = texts[2][0]
    audit = _judge(said, np.repeat(np.arange(4), 9))
    (finding,) = audit.findings
    assert (finding.episode_id, finding.proposed in texts[0]) == ("0", True)
    assert (audit.verdict, audit.instructions) == ("judged", 4), "twelve texts are four instructions"


def test_an_instruction_in_two_scenes_is_not_named_beside_its_own_episodes() -> None:
    scenes = np.repeat([0, 1, 2, 1, 3], 8)
    said = np.repeat(["lift the lid", "open the drawer", "close the drawer", "wipe"], [8, 8, 16, 8]).tolist()
    audit = _judge(said, scenes)
    assert audit.verdict == "judged" and not audit.findings


def _judge(said: Sequence[str], places: NDArray[np.int64]) -> InstructionAudit:
    """The audit of texts (N,) of episodes that lie around the centres of places (N,)."""
    rng = np.random.default_rng(3)
    centres = rng.normal(0, 1, (int(places.max()) + 1, 24))
    return _audit(said, centres[places] + rng.normal(0, 0.25, (len(said), 24)))


def _audit(said: Iterable[object], features: NDArray[np.float64]) -> InstructionAudit:
    """The audit of episodes that say this (N,) and look like this (N, F)."""
    episodes = [
        AuditedEpisode(episode_id=str(row), text=str(text), counting=str(text), content=row)
        for row, text in enumerate(said)
    ]
    empty = InstructionAudit(dataset="known", verdict="unsure")
    return judge_instructions(empty, episodes, features.astype(np.float16))


def _tasks_apart() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Features (N, F) of 40 episodes of each of five tasks, twelve deviations from each other, and the tasks (N,)."""
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(5), 40)
    centres = 12 * np.linalg.qr(rng.normal(size=(24, 24)))[0][:5] / np.sqrt(2)
    return centres[tasks] + rng.normal(size=(len(tasks), 24)), tasks


def test_where_tasks_look_different_most_exchanges_are_found_and_no_other_is_named() -> None:
    features, tasks = _tasks_apart()
    found = _audit(tasks, features)
    assert found.verdict == "judged" and not found.findings
    assert found.power.planted == 20 and found.power.detected >= 18
    assert found.power.others == 180 and found.power.named <= 1
    assert f"found {found.power.detected} of 20 planted exchanges, named " in str(found)


def test_where_too_few_exchanges_are_found_nobody_is_named() -> None:
    features, tasks = _tasks_apart()
    rng = np.random.default_rng(1)
    said = np.where(rng.random(len(tasks)) < 0.45, rng.integers(0, 5, len(tasks)), tasks)
    blurred = _audit(said, features + rng.normal(scale=3.0, size=features.shape))
    assert blurred.verdict == "unsure" and not blurred.findings
    assert "cannot tell here" in str(blurred) and "embed with a model that knows these pictures" in str(
        blurred
    )


def test_few_episodes_that_differ_in_many_directions_are_told_apart() -> None:
    """Every class lies far from every episode there: none is twice as near as another."""
    rng = np.random.default_rng(2)
    tasks = np.repeat(np.arange(3), 40)
    wrong = rng.permutation(120)[:12]
    said = tasks.copy()
    said[wrong] = (said[wrong] + 1) % 3
    found = _audit(said, 8 * np.eye(3, 100)[tasks] + rng.normal(size=(120, 100)))
    assert found.verdict == "judged"
    assert {int(finding.episode_id) for finding in found.findings} == set(wrong.tolist())


def test_a_small_dataset_is_tried_in_rounds_that_leave_most_instructions_as_they_are() -> None:
    features, tasks = _tasks_apart()
    small = np.flatnonzero(np.arange(len(tasks)) % 40 < 6)
    found = _audit(tasks[small], features[small])
    assert found.power.planted == 20 and found.power.others > 100
    assert found.verdict == "judged" and found.power.detected >= 14


@pytest.mark.parametrize(
    ("dataset", "reason"),
    [("alike", "embed with a model that knows these pictures"), ("rare", "fewer than 3 different episodes")],
)
def test_what_cannot_be_told_is_unsure_and_names_nobody(
    audited: tuple[Workspace, str], dataset: str, reason: str
) -> None:
    (audit,) = audited[0].review.audit_instructions(dataset)
    assert (audit.verdict, audit.findings) == ("unsure", ())
    assert reason in audit.reason and "nobody is named" in str(audit)


def test_an_accepted_correction_leaves_the_source_and_is_taken_back(audited: tuple[Workspace, str]) -> None:
    workspace, planted = audited
    (audit,) = workspace.review.audit_instructions("known")
    proposed = audit.findings[0].proposed
    (answer_id,) = workspace.correct(planted, instruction=proposed, person="Ada").ids
    columns = ["instruction", "instruction_original", "corrected_instruction", "instruction_fits"]
    rows = workspace.stores.tables.episodes.read_columns(columns, f"episode_id = '{planted}'").to_pylist()
    assert normalize_instruction(rows[0]["corrected_instruction"]) == TEXTS[2]
    assert normalize_instruction(rows[0]["instruction"]) == TEXTS[2]
    assert (rows[0]["instruction_original"], rows[0]["instruction_fits"]) == (TEXTS[0], False)
    assert not _named(workspace), "the last audit names it no more"
    assert not workspace.review.audit_instructions("known")[0].findings, "nor does a new one"
    workspace.review.withdraw(answer_id, "Ada")
    (finding,) = workspace.review.audit_instructions("known")[0].findings
    assert finding.episode_id == planted
    is_right = Answer(
        question="instruction", subject_id=planted, subject_kind="episode", verdict="met", person="Ada"
    )
    answer_id = workspace.review.give(is_right)
    assert not workspace.review.audit_instructions("known")[0].findings, "a person called it right"
    workspace.review.withdraw(answer_id, "Ada")


def _named(workspace: Workspace) -> list[str]:
    audits = workspace.review.audits()
    return [finding.episode_id for audit in audits for finding in audit.findings]


def test_what_is_named_goes_into_a_queue(
    run_ares: Callable[..., CommandResult], audited: tuple[Workspace, str]
) -> None:
    workspace, planted = audited
    checked = run_ares("audit", "instructions", "-w", workspace.path)
    assert checked.status == 1 and planted in checked.out
    assert "ares review create NAME --instructions" in checked.out
    assert "alike: unsure" in checked.out and "rare: unsure" in checked.out
    create = ("review", "create", "wrong", "--instructions")
    assert "1 item," in run_ares(*create, "-w", workspace.path).out
    item = workspace.review.queue("wrong").next("Ada")
    assert item is not None and (item.episode_id, item.text) == (planted, TEXTS[0])
    assert item.question == "instruction"
    checked = run_ares("audit", "instructions", "rare", "--json", "-w", workspace.path)
    (document,) = checked.json
    assert (checked.status, document["dataset"], document["verdict"]) == (0, "rare", "unsure")
    assert document["findings"] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("audit", "instructions", "none"), "no dataset 'none': there are: alike, known, rare"),
        (
            ("review", "create", "q", "--instructions", "--question", "success"),
            "--instructions says which episodes",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(
    run_ares: Callable[..., CommandResult],
    audited: tuple[Workspace, str],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    refused = run_ares(*arguments, "-w", audited[0].path)
    assert refused.status == 2 and message in refused.err


def test_without_vectors_one_line_says_what_to_run(
    ws: Workspace, run_ares: Callable[..., CommandResult]
) -> None:
    fill_audited_world(ws.stores, with_vectors=False)
    with pytest.raises(RequestError, match="no audit names an episode: `ares audit instructions` makes one"):
        ws.review.create_from_audits(QueueRequest(name="q", question="instruction", person="Ada"))
    refused = run_ares("audit", "instructions", "-w", ws.path)
    (line,) = refused.err.splitlines()
    assert refused.status == 2 and "no frame vectors" in line and "ares annotate embed" in line


def test_a_removed_episode_is_not_named(audited: tuple[Workspace, str]) -> None:
    workspace, planted = audited
    workspace.review.audit_instructions("known")
    workspace.remove(ids=[planted])
    assert not _named(workspace)
    workspace.undo()
    assert _named(workspace) == [planted]


@pytest.mark.slow
def test_what_the_audit_names_is_shown_until_its_source_says_something_else(
    world: tuple[Path, str], tmp_path: Path, run_ares: Callable[..., CommandResult]
) -> None:
    planted = world[1]
    with open_workspace(str(copy_workspace(world[0], tmp_path / "ws")), Settings()) as workspace:
        workspace.review.audit_instructions()
        assert f"unmet: '{TEXTS[2]}" in _show(run_ares, workspace, planted).lower()
        named = set(_named(workspace))
        other = next(
            id for id in workspace.stores.tables.episodes.ids("dataset = 'known'") if id not in named
        )
        assert "fits better" not in _show(run_ares, workspace, other)
        rows = pa.table({"episode_id": [planted], "instruction": [TEXTS[2]]})
        workspace.stores.tables.episodes.set_values(rows)
        assert "fits better" not in _show(run_ares, workspace, planted) and not _named(workspace)


def _show(run_ares: Callable[..., CommandResult], workspace: Workspace, episode_id: str) -> str:
    return run_ares("show", episode_id, "-w", workspace.path).out


def test_what_the_audit_said_of_an_episode_goes_with_a_purge(world: tuple[Path, str], tmp_path: Path) -> None:
    planted = world[1]
    with open_workspace(str(copy_workspace(world[0], tmp_path / "ws")), Settings()) as workspace:
        workspace.review.audit_instructions()
        workspace.stores.annotations.put_documents(
            "instruction_verdicts", {"known/": {"j": {"episodes": {planted: []}}}}
        )
        with StagedIds([planted]) as ids:
            purge_episodes(workspace.stores, ids)
        for kind in ("instruction_audits", "instruction_verdicts"):
            documents = workspace.stores.annotations.find_documents(kind)
            assert planted not in json.dumps(list(documents)), "what an earlier version stored goes, too"
