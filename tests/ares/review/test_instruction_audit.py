"""The instruction audit names a planted swap and nobody else, and follows what people say."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from app.cli.main import main
from ares.errors import RequestError
from ares.review import (
    AuditedEpisode,
    InstructionAudit,
    QueueRequest,
    judge_instructions,
    normalize_instruction,
)
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from tests.ares.review.audited_world import TEXTS, fill_audited_world

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Workspace, str]]:
    """The world, and the episode whose instruction was planted wrong."""
    with open_workspace(str(tmp_path_factory.mktemp("audit") / "ws"), Settings()) as opened:
        yield opened, next(iter(fill_audited_world(opened.stores)))


@pytest.fixture
def run(audited: tuple[Workspace, str], capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        status = main([*arguments, "-w", audited[0].path])
        out, err = capsys.readouterr()
        return status, out, err

    return call


def test_a_planted_swap_is_named_with_its_frames_and_nobody_else(audited: tuple[Workspace, str]) -> None:
    workspace, planted = audited
    by_name = {audit.dataset: audit for audit in workspace.review.audit_instructions()}
    (finding,) = by_name["known"].findings
    assert (finding.episode_id, finding.instruction) == (planted, TEXTS[0])
    assert normalize_instruction(finding.proposed) == TEXTS[2]
    assert finding.camera == "front" and len(finding.seconds) == 2 and finding.share > 0.9
    assert "fits less than" in str(finding) and f"frames {finding.seconds[0]:.1f} s" in str(finding)
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
    features = centres[places] + rng.normal(0, 0.25, (len(said), 24))
    episodes = [
        AuditedEpisode(episode_id=str(row), text=text, counting=text, content=row)
        for row, text in enumerate(said)
    ]
    empty = InstructionAudit(dataset="known", verdict="unsure")
    return judge_instructions(empty, episodes, features.astype(np.float16))


@pytest.mark.parametrize(
    ("dataset", "reason"),
    [("alike", "do not tell its instructions apart"), ("rare", "have 3 different episodes")],
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
    answer_id = workspace.review.give(audit.findings[0].correction("Ada"))
    columns = ["instruction", "corrected_instruction", "instruction_fits"]
    rows = workspace.stores.tables.episodes.read_columns(columns, f"episode_id = '{planted}'").to_pylist()
    assert normalize_instruction(rows[0]["corrected_instruction"]) == TEXTS[2]
    assert (rows[0]["instruction"], rows[0]["instruction_fits"]) == (TEXTS[0], False)
    assert not _named(workspace), "the last audit names it no more"
    assert not workspace.review.audit_instructions("known")[0].findings, "nor does a new one"
    workspace.review.withdraw(answer_id, "Ada")
    assert [finding.episode_id for finding in workspace.review.audit_instructions("known")[0].findings] == [
        planted
    ]


def test_what_a_person_calls_right_is_not_named_again(audited: tuple[Workspace, str]) -> None:
    workspace, planted = audited
    (audit,) = workspace.review.audit_instructions("known")
    correction = audit.findings[0].correction("Ada")
    answer_id = workspace.review.give(replace(correction, verdict="met", text=""))
    assert not workspace.review.audit_instructions("known")[0].findings
    workspace.review.withdraw(answer_id, "Ada")
    assert [finding.episode_id for finding in workspace.review.audit_instructions("known")[0].findings] == [
        planted
    ]


def _named(workspace: Workspace) -> list[str]:
    audits = workspace.review.audits()
    return [finding.episode_id for audit in audits for finding in audit.findings]


def test_what_is_named_goes_into_a_queue_with_the_frames_that_decide(
    run: Run, audited: tuple[Workspace, str]
) -> None:
    workspace, planted = audited
    status, out, _ = run("check", "--instructions")
    assert status == 1 and planted in out and "ares review create NAME --instructions" in out
    assert "alike: unsure" in out and "rare: unsure" in out
    status, out, _ = run("review", "create", "wrong", "--instructions", "--person", "Ada")
    assert status == 0 and "1 items" in out
    item = workspace.review.queue("wrong").next("Ada")
    assert item is not None and (item.episode_id, item.question, item.text) == (
        planted,
        "instruction",
        TEXTS[0],
    )
    (finding,) = [finding for audit in workspace.review.audits() for finding in audit.findings]
    assert item.evidence == finding.seconds != ()
    status, out, _ = run("check", "--instructions", "rare", "--json")
    (document,) = json.loads(out)
    assert (status, document["dataset"], document["verdict"], document["findings"]) == (
        0,
        "rare",
        "unsure",
        [],
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check", "--instructions", "none"), "no dataset 'none': there are: alike, known, rare"),
        (("check", "--instructions", "--video"), "--video does not go with --instructions"),
        (("check",), "no SOURCE is given"),
        (
            ("review", "create", "q", "--instructions", "--question", "success"),
            "--instructions says which episodes",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(run: Run, arguments: tuple[str, ...], message: str) -> None:
    status, _, err = run(*arguments)
    assert status == 2 and message in err


def test_without_vectors_one_line_says_what_to_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], audited: tuple[Workspace, str]
) -> None:
    with open_workspace(str(tmp_path / "ws"), Settings()) as opened:
        fill_audited_world(opened.stores, with_vectors=False)
        with pytest.raises(
            RequestError, match="no audit names an episode: `ares check --instructions` makes one"
        ):
            opened.review.create_from_audits(QueueRequest(name="q", question="instruction", person="Ada"))
    status = main(["check", "--instructions", "-w", str(tmp_path / "ws")])
    assert status == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "no frame vectors" in line and "ares annotate embed" in line


def test_a_removed_episode_is_not_named(audited: tuple[Workspace, str]) -> None:
    workspace, planted = audited
    workspace.review.audit_instructions("known")
    workspace.remove(ids=[planted])
    assert not _named(workspace)
    workspace.undo()
    assert _named(workspace) == [planted]
