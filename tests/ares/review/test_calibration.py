"""A judge of known error rates is measured by what people answered; certificates hold what they say, or are refused."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from app.cli.main import main
from ares.curation import purge_episodes, remove_episodes, select_episodes, undo
from ares.episode import Record, Trajectory
from ares.errors import RequestError
from ares.jobs import EpisodeSelection
from ares.review import (
    Answer,
    QueueRequest,
    certify,
    give_answer,
    report_calibration,
    store_answer,
    withdraw_answer,
)
from ares.review.certificate import certificate_from_json, certify_items, find_reasons_void
from ares.settings import Settings
from ares.store import StagedIds
from ares.workspace import Workspace, open_workspace
from benchmarks.review_estimates import draw_accepted_items
from tests.ares.review.conftest import CAPTIONER, JUDGE, make_annotation
from tests.ingesting import ingest_paths

_EPISODES = 260


class LabelledWorld:
    """A workspace whose captions are true or not, with a judge that accepts some of each."""

    def __init__(self, workspace: Workspace, path: Path, seed: int, false_accepted: float = 0.0) -> None:
        self.workspace, self.path, source = workspace, path, random.Random(seed)
        for producer in (CAPTIONER, JUDGE):
            workspace.stores.annotations.add_producer(producer)
        like = next(iter(workspace.stores.tables.episodes.read()))
        blank = Trajectory(timestamps=np.arange(2) / 10.0)
        names = [f"{number:016x}" for number in range(_EPISODES)]
        episodes = [replace(like, episode_id=name, key=name, content_hash=name) for name in names]
        workspace.stores.tables.episodes.add(
            [Record(episode=replace(episode, num_steps=2), trajectory=blank) for episode in episodes]
        )
        self.truth = {name: source.random() < 0.7 for name in names}
        self.accepted = {
            name: source.random() < (0.9 if true else false_accepted) for name, true in self.truth.items()
        }
        self.captions = {name: self._add_caption(name, source.random()) for name in names}
        workspace.sync()

    def _add_caption(self, name: str, margin: float) -> str:
        caption = make_annotation(CAPTIONER, name, name, {"text": "lift the lid", "caption": "lift the lid"})
        grade = "acceptable" if self.accepted[name] else "not_acceptable"
        value = {"grade": grade, "acceptable": self.accepted[name], "grade_margin": margin, "rulings": []}
        value["grade_hand"] = "MET"
        graded = make_annotation(JUDGE, name, caption.annotation_id, value)
        self.workspace.stores.annotations.append([caption, graded])
        return caption.annotation_id

    def answer(self, name: str, person: str = "Ada", **fields: str) -> str:
        """A person says what is true, of an episode that was drawn at random."""
        said = Answer(
            question="acceptable",
            subject_id=self.captions[name],
            subject_kind="annotation",
            verdict="met" if self.truth[name] else "unmet",
            person=person,
            queue="first",
            drawn="random",
        )
        given = store_answer(self.workspace.stores, replace(said, **fields))  # type: ignore[arg-type]
        return given.annotation_id


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Iterator[LabelledWorld]:
    path = tmp_path_factory.mktemp("calibration") / "ws"
    with open_workspace(str(path), Settings()) as workspace:
        ingest_paths(workspace.stores, [str(demo_samples / "video")], limit=1, quiet=True)
        yield LabelledWorld(workspace, path, seed=11)


@pytest.fixture(scope="module")
def answered(world: LabelledWorld) -> dict[str, str]:
    """Ids of the answers by episode: 220 at random, of which Bob answers ten, too."""
    names = sorted(world.truth)[:220]
    answers = {name: world.answer(name) for name in names}
    for name in names[:10]:
        world.answer(name, "Bob", drawn="repeat")
    world.workspace.sync()
    return answers


@pytest.mark.slow
def test_from_answers_to_a_certificate_and_its_end(
    world: LabelledWorld, answered: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    # One test, since each part changes what the next one sees.
    check_report(world, answered)
    check_certified_set(world, capsys, tmp_path)
    check_ways_to_change_a_label(world, answered, tmp_path)
    check_reasons_void(world, answered)
    check_what_cannot_be_undone(world, answered)


def check_report(world: LabelledWorld, answered: dict[str, str]) -> None:
    """The report counts what judge and people say."""
    (report,) = report_calibration(world.workspace.stores, question="acceptable")
    table = {
        (judged, truth): sum(
            world.accepted[name] is (judged == "met") and world.truth[name] is (truth == "met")
            for name in answered
        )
        for judged in ("met", "unmet")
        for truth in ("met", "unmet")
    }
    assert report.table == {key: count for key, count in table.items() if count}
    assert (report.items, report.random_items, report.disputed, report.alpha) == (220, 220, 0, 1.0)
    assert report.precision is not None and report.recall is not None and report.true_share is not None
    assert (report.precision.share, report.coverage and report.coverage.share) == (1.0, 1.0)
    true = table["met", "met"] + table["unmet", "met"]
    assert report.recall.share == pytest.approx(table["met", "met"] / true)
    everything = sum(world.truth.values()) / _EPISODES
    assert report.true_share.method == "ppi++"
    assert report.true_share.low < everything < report.true_share.high


@pytest.mark.slow
def test_who_adjudicates_an_own_answer_leaves_it_random_and_the_people_at_odds(world: LabelledWorld) -> None:
    name = next(name for name in sorted(world.truth)[225:] if world.accepted[name])
    success = {"question": "success", "subject_id": name, "subject_kind": "episode"}
    world.answer(name, "Mia", verdict="success", **success)
    world.answer(name, "Noa", verdict="failure", drawn="repeat", **success)
    (report,) = report_calibration(world.workspace.stores, question="success")
    assert (report.disputed, report.random_items) == (1, 0)
    world.answer(name, "Mia", verdict="failure", drawn="adjudicate", **success)
    (report,) = report_calibration(world.workspace.stores, question="success")
    assert (report.disputed, report.random_items, report.alpha) == (0, 1, 0.0)
    for person in ("Mia", "Noa", "Mia"):
        (row,) = world.workspace.review.answers(person=person)
        withdraw_answer(world.workspace.stores, row.answer_id, person)
    assert report_calibration(world.workspace.stores, question="success") == []


def check_certified_set(world: LabelledWorld, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A set with a certificate has what it speaks of, and an export says so."""
    path = str(world.path)
    assert main(["set", "create", "true", "--min-precision", "0.95", "-w", path]) == 0
    said = capsys.readouterr().out
    assert "precision of acceptable at least 0.95 with 95% confidence at coverage 1.00" in said
    expected = {
        name for number, name in enumerate(sorted(world.truth)) if world.accepted[name] or
        (number < 220 and world.truth[name])
    }  # fmt: skip
    certified = world.workspace.sets["true"]
    assert set(certified.ids()) == expected
    assert certified.certificate["void"] == []
    assert f"the judge of their captions is: {len(expected)} certified;" in said
    assert read_certified(world) == expected
    world.workspace.export(certified, tmp_path / "out", format="parquet", quiet=True)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["certificate"]["precision"] == 0.95
    assert manifest["grade_trust"] == {"certified": len(expected)}
    assert f"{len(expected)} certified." in (tmp_path / "out" / "README.md").read_text()
    assert main(["set", "delete", "true", "--yes", "-w", path]) == 0
    assert read_certified(world) == set(), "a deleted set certifies nothing"
    assert main(["undo", "-w", path]) == 0
    assert read_certified(world) == expected
    capsys.readouterr()
    assert main(["set", "create", "more", "--min-precision", "0.99", "-w", path]) == 2
    assert "more random answers on accepted captions are missing" in capsys.readouterr().err
    assert main(["set", "create", "few", "--min-precision", "0.9", "--limit", "3", "-w", path]) == 2
    assert "--limit" in capsys.readouterr().err
    assert main(["review", "report", "--question", "acceptable", "-w", path]) == 0
    assert "1.00 (" in capsys.readouterr().out


def check_ways_to_change_a_label(world: LabelledWorld, answered: dict[str, str], tmp_path: Path) -> None:
    """Whichever way an answer comes, changes or goes, nothing is certified at once, and again once it is undone."""
    workspace, stores = world.workspace, world.workspace.stores
    name = next(name for name in sorted(answered)[20:] if world.accepted[name])
    said = Answer(question="acceptable", subject_id=world.captions[name], subject_kind="annotation",
                  verdict="unmet", person="Ada", drawn="random", queue="first")  # fmt: skip
    members = read_certified(world)

    def answer_in_queue() -> Callable[[], object]:
        return _answer_in_queue(workspace, name)

    def answer_by_file() -> Callable[[], object]:
        return _answer_by_file(world, said, tmp_path / "answers.jsonl")

    def answer_on_page() -> Callable[[], object]:
        kept = give_answer(stores, said).annotation_id
        return lambda: withdraw_answer(stores, kept, "Ada")

    def change_text() -> Callable[[], object]:
        text = replace(said, question="text", verdict="", text="push it", drawn="", queue="")
        kept = give_answer(stores, text).annotation_id
        return lambda: withdraw_answer(stores, kept, "Ada")

    def exclude_episode() -> Callable[[], object]:
        with select_episodes(stores, EpisodeSelection(ids=[name])) as selected:
            action = remove_episodes(stores, selected, person="Ada")
        return lambda: undo(stores, action.number, person="Ada")

    def delete_set() -> Callable[[], object]:
        action = workspace.sets.delete("true")
        return lambda: undo(stores, action.number)

    def undo_undo_of_deleted_set() -> Callable[[], object]:
        taken_back = undo(stores, workspace.sets.delete("true").number).action
        again = undo(stores, taken_back.number).action
        return lambda: undo(stores, again.number)

    ways = (answer_on_page, answer_in_queue, answer_by_file, change_text, exclude_episode, delete_set,
            undo_undo_of_deleted_set)  # fmt: skip
    for change in ways:
        take_back = change()
        assert read_certified(world) == set(), change.__name__
        take_back()
        assert read_certified(world) == members, change.__name__


def _answer_in_queue(workspace: Workspace, name: str) -> Callable[[], object]:
    """Another person is asked about an episode and says no; returns what takes it back."""
    request = QueueRequest(name="again", question="acceptable", person="Kim")
    workspace.review.create(request, where=f"episode_id = '{name}'")
    queue = workspace.review.queue("again")
    item = queue.next("Kim")
    assert item is not None
    queue.answer(item, "Kim", "unmet")
    return lambda: queue.undo("Kim")


def _answer_by_file(world: LabelledWorld, said: Answer, file: Path) -> Callable[[], object]:
    """A file has the answer of another person; returns what takes it back, since the user of the command is not Uma."""
    file.write_text(json.dumps(said.to_json() | {"person": "Uma"}))
    assert main(["review", "import", str(file), "--trust-answers-of", "Uma", "-w", str(world.path)]) == 0
    (row,) = world.workspace.review.answers(person="Uma")
    return lambda: world.workspace.review.withdraw(row.answer_id, "Uma")


def check_what_cannot_be_undone(world: LabelledWorld, answered: dict[str, str]) -> None:
    """An answer that is taken back, and one that a purge deletes, certify nothing at once."""
    workspace, stores = world.workspace, world.workspace.stores
    first, second = [name for name in sorted(answered)[20:] if world.accepted[name]][2:4]

    def purge_second() -> None:
        with StagedIds([second]) as ids:
            purge_episodes(stores, ids)

    for number, change in enumerate(
        (lambda: workspace.review.withdraw(answered[first], "Ada"), purge_second)
    ):
        workspace.sets.create_certified(f"late-{number}", 0.9)
        assert len(read_certified(world)) > 100
        change()
        assert read_certified(world) == set(), number


def read_certified(world: LabelledWorld) -> set[str]:
    """The episodes whose caption counts as certified: it is accepted, although nothing proves their judge."""
    episodes = world.workspace.stores.tables.episodes
    certified = episodes.ids("grade_trust = 'certified'")
    assert episodes.ids("acceptable AND certified >= 0.9") == certified
    return certified


def check_reasons_void(world: LabelledWorld, answered: dict[str, str]) -> None:
    """A certificate is void once something under it changes, and says what."""
    stores = world.workspace.stores
    certificate = certify(stores, 0.95)
    assert (certificate.errors, certificate.cut, certificate.coverage) == (0, 0.0, 1.0)
    assert certificate_from_json(certificate.to_json()) == certificate
    members = [name for name in answered if world.accepted[name]]
    assert find_reasons_void(stores, certificate, members) == ()
    name = members[3]
    changed = world.answer(name, verdict="unmet")
    world.workspace.sync()
    assert find_reasons_void(stores, certificate, members) == (
        f"an answer on episode {name} was changed or taken back",
    )
    assert read_certified(world) == set(), "what is void falls back to the word of the controls"
    withdraw_answer(stores, changed, "Ada")
    assert find_reasons_void(stores, certificate, members) == ()
    assert read_certified(world) >= set(members) - {name}
    other = replace(JUDGE, model="another judge")
    stranger = replace(CAPTIONER, model="another captioner")
    outside = next(one for one in sorted(world.truth)[235:] if world.accepted[one])
    for producer in (other, stranger):
        stores.annotations.add_producer(producer)
    text = {"text": "push the lid", "caption": "push the lid"}
    stores.annotations.append(
        [
            make_annotation(other, name, world.captions[name], {"grade": "unsure"}),
            make_annotation(stranger, outside, outside, text),
        ]
    )
    world.workspace.use(caption=stranger.maker_id)
    world.workspace.sync()
    assert find_reasons_void(stores, certificate, [*members, outside]) == (
        f"episode {name} was graded again by {other.maker_id}",
        f"of {len(members) + 1} members another caption or grade is shown now",
    )
    world.workspace.use(caption=CAPTIONER.maker_id)
    world.workspace.sync()


def test_answers_of_a_queue_of_other_episodes_certify_nothing(world: LabelledWorld) -> None:
    workspace = world.workspace
    name = next(name for name in sorted(world.truth)[250:] if world.accepted[name])
    request = QueueRequest(name="narrow", question="acceptable", person="Zoe", random_items=1)
    workspace.review.create(request, where=f"episode_id = '{name}'")
    queue = workspace.review.queue("narrow")
    item = queue.next("Zoe")
    assert item is not None
    queue.answer(item, "Zoe", "met")
    with pytest.raises(RequestError, match="queue 'narrow' was drawn from other episodes"):
        certify(workspace.stores, 0.95)
    with pytest.raises(RequestError, match="not shown yet"):
        certify(workspace.stores, 0.95, where=f"episode_id = '{name}'")
    queue.undo("Zoe")


@pytest.mark.parametrize("where", ["grade = 'acceptable'", "dataset = 'video' AND \"REVIEWED\""])
def test_a_filter_that_leaves_out_what_people_refused_certifies_nothing(
    world: LabelledWorld, where: str
) -> None:
    with pytest.raises(RequestError, match="certifies nothing: answers change it"):
        certify(world.workspace.stores, 0.95, where=where)
    with pytest.raises(RequestError, match="measures nothing: answers change it"):
        world.workspace.review.report(where=where)


@pytest.mark.slow
def test_answers_of_a_queue_of_a_part_estimate_that_part_alone(world: LabelledWorld) -> None:
    workspace, where = world.workspace, f"episode_id >= '{sorted(world.truth)[240]}'"
    request = QueueRequest(name="part", question="success", person="Lou", random_items=4)
    workspace.review.create(request, where=where)
    queue = workspace.review.queue("part")
    while item := queue.next("Lou"):
        queue.answer(item, "Lou", "success")
    (everything,) = workspace.review.report(question="success")
    (part,) = workspace.review.report(question="success", where=where)
    for row in list(workspace.review.answers(queue="part")):
        workspace.review.withdraw(row.answer_id, "Lou")
    assert (everything.items, everything.random_items) == (4, 0), "they say nothing of the rest"
    assert (part.items, part.random_items) == (4, 4)
    assert (everything.other_queues, part.other_queues) == (("part",), ())


def test_a_refusal_says_how_many_answers_are_missing() -> None:
    with pytest.raises(RequestError, match="0 answers tested it"):
        certify_items([], 0.95)
    with pytest.raises(RequestError) as refusal:
        certify_items(draw_accepted_items(1, 80, 1.0), 0.95)
    assert "about 38 more random answers" in str(refusal.value)
    with pytest.raises(RequestError, match="cannot be certified"):
        certify_items(draw_accepted_items(1, 900, 0.8, 0.8), 0.95)
