"""What people measure: a bound that holds at every look, over what was drawn at random, and what voids it."""

from __future__ import annotations

import json
import random
import secrets
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from ares.episode import Json
from ares.errors import RequestError
from ares.export import keep_measured_episodes, refuse_unmeasured
from ares.review import (
    Answer,
    MeasuredShare,
    QueueItem,
    give_answer,
    read_measured_shares,
)
from ares.settings import Settings
from ares.statistics import bound_true_share
from ares.store import Stores, open_stores
from ares.workspace import Measurement, open_workspace
from tests.ares.review.conftest import CAPTIONER
from tests.ares.review.measured_world import JUDGE, add_graded, answer_items


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    with closing(open_stores(str(tmp_path / "ws"), Settings())) as opened:
        yield opened


def _measure(
    stores: Stores, person: str = "Ada", at_least: float = 0.9, question: str = "caption"
) -> Measurement:
    return Measurement(stores, "lids", question, at_least=at_least, person=person)


def _share(stores: Stores, dataset: str = "lids") -> MeasuredShare:
    stores.sync()
    (share,) = read_measured_shares(stores)[dataset]
    return share


def test_36_answers_without_an_error_show_90_percent_and_140_with_one_95() -> None:
    shown = {counts: bound_true_share(*counts) for counts in ((36, 36), (81, 81), (139, 140), (294, 300))}
    assert shown == {
        (36, 36): pytest.approx(0.9001, abs=1e-4),
        (81, 81): pytest.approx(0.9502, abs=1e-4),
        (139, 140): pytest.approx(0.9504, abs=1e-4),
        (294, 300): pytest.approx(0.9452, abs=1e-4),
    }
    assert bound_true_share(35, 35) < 0.9 and bound_true_share(80, 80) < 0.95
    assert bound_true_share(0, 0) == bound_true_share(0, 20) == 0.0


@pytest.mark.slow
def test_a_look_after_every_answer_misleads_in_at_most_one_of_twenty_populations() -> None:
    """Finite populations with seeds that nothing chose, asked without replacement until all or 300 are answered."""
    source, missed, populations = random.Random(secrets.randbits(64)), 0, 2_000
    for _ in range(populations):
        size, likely = source.choice((12, 40, 120, 400, 2_000)), source.choice((0.5, 0.8, 0.879, 0.95, 0.99))
        truths = [source.random() < likely for _ in range(size)]
        share, true = sum(truths) / size, 0
        start = MeasuredShare(dataset="d", question="caption", what=("captions", "true"), drawn_from=size)
        for answers, is_true in enumerate(truths[:300], start=1):
            true += is_true
            if replace(start, true=true, answers=answers).bound > share + 1e-12:
                missed += 1
                break
    assert missed / populations <= 0.05


def test_it_asks_until_the_share_is_shown_and_every_fourth_question_is_a_refused_one(stores: Stores) -> None:
    add_graded(stores, "+" * 60 + "-" * 40)
    measurement = _measure(stores)
    assert str(measurement) == (
        "lids: accepted captions: not measured: 36 answers without an error would show 90 %; "
        "60 % of all are accepted"
    )
    accepted = {f"lift lid {number}" for number in range(60)}
    asked = answer_items(measurement, 500, lambda item: item.text in accepted)
    share = _share(stores)
    assert (share.answers, share.true, share.refused, share.refused_true) == (36, 36, asked - 36, 0)
    assert 10 <= share.refused <= 12, "every fourth"
    assert measurement.next() is None
    assert str(share) == (
        "accepted captions: 100 % true, at least 90 % (36 answers of 1 person); 60 % of all are accepted; "
        f"0 of {share.refused} refused ones are true"
    )
    assert _measure(stores, at_least=0.95).next() is not None, "more is asked where more is to be shown"


def test_it_ends_where_the_share_cannot_be_shown_any_more(stores: Stores) -> None:
    add_graded(stores, "+" * 400)
    measurement = _measure(stores)
    asked = answer_items(measurement, 500, lambda item: False)
    share = _share(stores)
    assert 5 < asked == share.answers < 40 and share.true == 0
    best = bound_true_share(300 - asked, 300)
    assert best < 0.9 <= bound_true_share(300 - asked + 1, 300)
    add_graded(stores, "+" * 320, dataset="mugs")
    with pytest.raises(RequestError, match=r"99 % cannot be shown: 300 answers without an error show 98 %"):
        Measurement(stores, "mugs", at_least=0.99, person="Ada")


def test_of_few_captions_all_are_asked_and_then_they_are_known(stores: Stores) -> None:
    add_graded(stores, "+" * 12)
    measurement = _measure(stores)
    assert answer_items(measurement, 50) == 11, "11 of 12 are more than 90 %"
    assert _share(stores).bound == pytest.approx(11 / 12)
    assert "1 more without an error would show 95 %" in _share(stores).describe_missing(0.95)


def test_an_answer_without_a_clip_is_kept_and_does_not_enter(stores: Stores) -> None:
    add_graded(stores, "+" * 60)
    measurement = _measure(stores)
    for verdict in ("met", "unmet"):
        item = measurement.next()
        assert item is not None
        measurement.answer(item, verdict)
    item = measurement.next()
    assert item is not None
    measurement.answer(item, "unsure", shown=True)
    assert answer_items(measurement, 3) == 3
    share = _share(stores)
    assert (share.answers, share.true, share.unsure, share.unseen) == (3, 3, 1, 2)
    assert "2 answers without a clip not counted" in str(share) and "1 cannot be told" in str(share)


def test_what_was_answered_without_a_clip_is_asked_again_behind_the_rest(stores: Stores) -> None:
    add_graded(stores, "+" * 12)
    measurement, blind = _measure(stores), list[str]()
    while item := measurement.next():
        blind.append(item.episode_id)
        measurement.answer(item, "met")
        assert len(blind) <= 12, "a script that shows no clip ends"
    assert len(set(blind)) == 12 and (_share(stores).answers, _share(stores).unseen) == (0, 12)
    assert answer_items(_measure(stores), 50) == 11 and _share(stores).bound == pytest.approx(11 / 12)


def test_what_cannot_be_shown_is_said_with_the_answers_that_are_left(stores: Stores) -> None:
    add_graded(stores, "+" * 38)
    measurement, unsure = _measure(stores), 0
    while item := measurement.next():
        measurement.answer(item, "unsure", shown=True)
        unsure += 1
    assert unsure == 4
    with pytest.raises(RequestError, match=r"90 % cannot be shown: 34 answers without an error show 8\d %"):
        _measure(stores)


def test_without_a_judge_all_captions_are_measured_until_one_grades(stores: Stores) -> None:
    add_graded(stores, "." * 50)
    assert read_measured_shares(stores) == {}, "where nobody measures nothing is said"
    measurement = _measure(stores)
    assert str(measurement).startswith("lids: all 50 captions, none graded: not measured: 36 answers")
    order = iter(range(20))
    answer_items(measurement, 20, lambda item: next(order) not in (3, 7, 11))
    share = _share(stores)
    assert str(share).startswith("all 50 captions, none graded: 85 % true, at least 53 % (20 answers")
    assert (share.answers, share.true, share.drawn_from) == (20, 17, 50) and "of all are accepted" not in str(
        share
    )
    with pytest.raises(RequestError, match="lids: no accepted captions"):
        keep_measured_episodes(stores, stores.tables.episodes.ids(), 0.5)
    add_graded(stores, "." * 30, start=50)
    answer_items(_measure(stores, at_least=0.95), 30)
    assert _share(stores).drawn_from == 80 and _share(stores).answers > 20, "what came later is drawn, too"
    add_graded(stores, "+" * 4, start=80)
    assert str(_share(stores)).startswith("accepted captions: not measured")
    answer_items(_measure(stores), 4)
    assert _share(stores).drawn_from == 4, "also where people have answered all that the judge graded"


def test_where_nothing_is_accepted_the_message_says_who_grades(stores: Stores) -> None:
    add_graded(stores, "-" * 5)
    with pytest.raises(
        RequestError, match="no accepted captions: it has 5, none accepted; `ares annotate grade`"
    ):
        _measure(stores)


def test_what_another_captioner_or_judge_says_is_not_measured_and_the_older_number_comes_back(
    stores: Stores,
) -> None:
    add_graded(stores, "+" * 60)
    answer_items(_measure(stores), 5)
    assert _share(stores).answers == 5
    for judge, captioner in ((replace(JUDGE, model="k"), CAPTIONER), (JUDGE, replace(CAPTIONER, model="n"))):
        add_graded(stores, "+" * 60, judge=judge, captioner=captioner)
        assert _share(stores).answers == 0 and "not measured" in str(_share(stores))
    answer_items(_measure(stores), 2)
    assert _share(stores).answers == 2
    stores.annotations.put_documents("pins", {"grade": JUDGE.maker_id, "caption": CAPTIONER.maker_id})
    assert _share(stores).answers == 5, "answers about older makers are kept"


def test_an_error_stays_when_its_text_is_written_again(stores: Stores) -> None:
    add_graded(stores, "+" * 60)
    measurement = _measure(stores)
    wrong = measurement.next()
    assert wrong is not None
    measurement.answer(wrong, "unmet", shown=True)
    right = measurement.next()
    assert right is not None
    measurement.answer(right, "met", shown=True)
    answer_items(measurement, 3)
    for item in (wrong, right):
        said = Answer(question="text", subject_id=item.subject_id, subject_kind="annotation", verdict="",
                      person="Ada", text="close the lid")  # fmt: skip
        give_answer(stores, said)
    share = _share(stores)
    assert (share.answers, share.true) == (4, 3), "a true one leaves with its text"


def test_two_people_share_the_questions_and_their_agreement_is_printed(stores: Stores) -> None:
    add_graded(stores, "+" * 200)
    ada, ben = _measure(stores, at_least=0.97), _measure(stores, "Ben", at_least=0.97)
    answer_items(ada, 60)
    answer_items(ben, 80)
    share = _share(stores)
    assert share.people == ("Ada", "Ben") and 60 < share.answers < 140
    assert share.compared == share.agreed > 0
    assert f"two people agree on {share.compared} of {share.compared}" in str(share)


def test_what_two_people_differ_on_is_an_error_and_an_undo_takes_it_back(stores: Stores) -> None:
    add_graded(stores, "+" * 200)
    answer_items(_measure(stores, at_least=0.97), 60)
    ben = _measure(stores, "Ben", at_least=0.97)
    answer_items(ben, 1, lambda item: False)
    share = _share(stores)
    assert (share.answers, share.true, share.compared, share.agreed) == (60, 59, 1, 0)
    ben.undo()
    assert _share(stores).true == 60


def test_what_was_graded_since_is_said_and_a_new_drawing_asks_only_what_is_new(stores: Stores) -> None:
    add_graded(stores, "+" * 60)
    answer_items(_measure(stores), 50)
    add_graded(stores, "+" * 15, start=60)
    share = _share(stores)
    assert (share.answers, share.measured, share.accepted) == (36, 60, 75)
    assert "measured: 60 of 75 episodes" in str(share)
    # 36 of 75 in a random order: about a fifth of the first ones is new.
    asked = answer_items(_measure(stores), 50)
    share = _share(stores)
    assert 1 <= asked < 25 and share.answers >= 36
    assert (share.measured, share.accepted) == (75, 75) and "measured:" not in str(share)


def test_answers_behind_what_was_not_asked_yet_do_not_count(stores: Stores) -> None:
    """New captions that are false are found before old answers may speak for all."""
    add_graded(stores, "+" * 40)
    answer_items(_measure(stores), 50)
    add_graded(stores, "+" * 200, start=40)
    measurement = _measure(stores)
    answer_items(measurement, 40, lambda item: int(item.text.split()[-1]) < 40)
    share = _share(stores)
    assert (share.measured, share.accepted) == (240 - share.answers + share.true,) * 2
    assert share.bound < 0.6


def test_a_part_that_is_worse_is_named(stores: Stores) -> None:
    def outcome(number: int) -> dict[str, object]:
        return {"success": number % 2 == 0, "success_source": "source"}

    add_graded(stores, "+" * 300, fields=outcome)
    measurement = _measure(stores)
    for _ in range(100):
        item = measurement.queue.next("Ada")
        assert item is not None
        number = int(item.text.split()[-1])
        measurement.answer(item, "unmet" if number % 4 == 1 else "met", shown=True)
    share = _share(stores)
    assert [(part.name, part.value) for part in share.worse] == [("outcome", "failure")]
    assert "worse where outcome is failure: " in str(share)


def test_outcomes_and_instructions_are_measured_over_all_episodes(stores: Stores) -> None:
    add_graded(stores, "+" * 20)
    measurement = _measure(stores, question="instruction")
    assert answer_items(measurement, 50) == 18
    (share,) = (share for share in read_measured_shares(stores)["lids"] if share.question == "instruction")
    assert str(share).startswith("instructions: 100 % right, at least 90 % (18 answers of 1 person)")
    with pytest.raises(RequestError, match="has no outcomes"):
        _measure(stores, question="success")
    with pytest.raises(RequestError, match=r"no question 'captions'.*caption, segment, success, instruction"):
        _measure(stores, question="captions")
    with pytest.raises(RequestError, match="dataset 'mugs' has no accepted captions"):
        Measurement(stores, "mugs", at_least=0.9, person="Ada")
    with pytest.raises(RequestError, match=r"a share of 1\.5 cannot be shown"):
        _measure(stores, at_least=1.5)


def _is_accepted(item: QueueItem) -> bool:
    """Whether it is one of the first 60 captions, which the judge accepts."""
    return int(item.text.split()[-1]) < 60


def test_the_gate_keeps_what_was_measured_and_says_what_is_missing(stores: Stores) -> None:
    add_graded(stores, "+" * 60 + "-" * 20)
    add_graded(stores, "+" * 40, dataset="mugs")
    ids = sorted(stores.tables.episodes.ids())
    lids = sorted(stores.tables.episodes.ids("dataset = 'lids'"))
    answer_items(_measure(stores), 40, _is_accepted)
    message = (
        r"90 % of true captions is not shown: lids: at least 8\d % \((\d+) answers\); (\d+) more without an error "
        r"would show 90 %: ares review measure lids; mugs: not measured; 36 answers without an error would show 90 %: "
        r"ares review measure mugs"
    )
    with pytest.raises(RequestError, match=message):
        keep_measured_episodes(stores, ids, 0.9)
    answer_items(_measure(stores), 40, _is_accepted)
    stores.sync()
    kept = keep_measured_episodes(stores, lids, 0.9)
    assert len(kept) == 60
    refuse_unmeasured(stores, lids, 0.9)
    add_graded(stores, "+" * 5, start=80)
    lids = sorted(stores.tables.episodes.ids("dataset = 'lids'"))
    assert sorted(keep_measured_episodes(stores, lids, 0.9)) == sorted(kept)
    with pytest.raises(RequestError, match=r"5 accepted captions of 65 not measured.*--min-precision 0.9"):
        refuse_unmeasured(stores, lids, 0.9)


def test_what_people_refused_stays_out_and_what_they_accepted_comes_in(stores: Stores) -> None:
    add_graded(stores, "+" * 200 + "-" * 60)
    measurement, wrong = _measure(stores), set[str]()
    for number in range(90):
        item = measurement.next()
        if item is None:
            break
        if number == 20:
            wrong.add(item.episode_id)
        measurement.answer(item, "unmet" if number == 20 else "met", shown=True)
    stores.sync()
    share = _share(stores)
    kept = keep_measured_episodes(stores, stores.tables.episodes.ids(), 0.8)
    assert not wrong & set(kept) and share.refused_true + 200 >= len(kept) >= 199


def test_a_workspace_with_certificates_opens_and_they_say_nothing(tmp_path: Path) -> None:
    with open_workspace(str(tmp_path / "old"), Settings()) as workspace:
        add_graded(workspace.stores, "+" * 4)
        workspace.sets.create("true", where="num_steps > 0")
        documents: dict[str, Json] = {"true@000001": {"precision": 0.95, "items": []}}
        workspace.stores.annotations.put_documents("certificates", documents)
        ids = sorted(workspace.stores.tables.episodes.ids())
        rows = pa.table({"episode_id": ids, "certified": [0.95] * len(ids)})
        workspace.stores.tables.episodes.set_values(rows)
    with open_workspace(str(tmp_path / "old"), Settings()) as workspace:
        workspace.sync()
        assert workspace.sets["true"].measured == {}
        assert "not measured" in str(workspace.status().measured["lids"])
        assert not [item.check for item in workspace.doctor() if "certif" in item.check]
        workspace.sets.delete("true")


def test_an_export_of_what_was_not_measured_is_refused_and_its_manifest_has_the_line(tmp_path: Path) -> None:
    with open_workspace(str(tmp_path / "ws"), Settings()) as workspace:
        add_graded(workspace.stores, "+" * 12)
        workspace.sets.create("all", where="num_steps > 0")
        export = partial(workspace.export, "all", tmp_path / "out", format="parquet", quiet=True)
        with pytest.raises(
            RequestError, match="lids: not measured; 11 answers without an error would show 90 %"
        ):
            export(min_precision=0.9)
        answer_items(workspace.review.measure("lids", person="Ada"), 50)
        workspace.sync()
        export(min_precision=0.9)
    line = "accepted captions: 100 % true, at least 91 % (11 answers of 1 person)"
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["measured"]["lids"]["caption"]["says"].startswith(line)
    assert f"lids: {line}" in (tmp_path / "out" / "README.md").read_text()
