"""Controls are no copies of members or of each other, and are alike in task, outcome and length."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from ares.curation import find_copies
from ares.errors import RequestError
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from ares_app.cli.main import main
from tests.ares.curation.test_composition import draw_course, ids_of, make_record


@pytest.fixture(scope="module")
def halved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """Forty episodes and a copy of each: every second byte for byte, the others with noise; and another dataset."""
    rng = np.random.default_rng(0)
    with open_workspace(str(tmp_path_factory.mktemp("halved") / "w"), Settings()) as workspace:
        records = []
        for number in range(40):
            course, task = draw_course(number, 40 + number % 7), f"task {number % 2}"
            outcome = {"task": task, "success": number % 4 < 2}
            records.append(make_record(f"{number:02d}", course, **outcome))  # type: ignore[arg-type]
            noise = 0.001 * rng.normal(size=course.shape) * (number % 2)
            copy = make_record(f"copy{number:02d}", course + noise, **outcome)  # type: ignore[arg-type]
            if number % 2 == 0:
                episode = replace(copy.episode, content_hash=records[-1].episode.content_hash)
                copy = replace(copy, episode=episode)
            records.append(copy)
        records += [
            make_record(f"{n}", draw_course(100 + n, 43), dataset="b", task="task 0") for n in range(9)
        ]
        workspace.stores.tables.episodes.add(records)
        yield workspace


@pytest.mark.parametrize("seed", range(5))
def test_no_control_is_a_copy_where_half_of_a_dataset_are_copies(halved: Workspace, seed: int) -> None:
    halved.sets.create("some", where="dataset = 'a' AND key < '12'")
    frozen, drawn = halved.sets.controls("some", seed=seed)
    members = set(halved.sets["some"].ids())
    controls = {kind: set(control.ids()) for kind, control in frozen.items()}
    new = (controls["random"] | controls["matched"]) - members
    linked = find_copies(halved.stores, members | new).linked
    assert [pair for pair in linked if {pair.first, pair.second} & new] == []
    assert len(controls["random"]) == 12 and not controls["matched"] & members
    assert len(controls["matched"]) + drawn.unmatched == 12 and drawn.unmatched <= 6
    assert not (controls["random"] | controls["matched"]) & set(ids_of(halved, "dataset = 'b'"))


def test_members_without_a_match_are_counted_and_too_few_matches_are_refused(
    halved: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ["-w", str(halved.path)]
    halved.stores.tables.episodes.add(
        [make_record(f"long{n}", draw_course(200 + n, 90), dataset="b", task="task 0") for n in range(3)]
    )
    assert main(["set", "create", "mixed", "--where", "key IN ('0', '1', 'long1')", *place]) == 0
    sets, _ = halved.sets.controls("mixed", where="dataset = 'b' AND key NOT IN ('long0', 'long2')")
    assert len(list(sets["matched"].ids())) == 2
    with pytest.raises(RequestError, match="less than half of mixed@1 has a match") as refusal:
        halved.sets.controls("mixed", where="dataset = 'a' AND instruction = 'task 1'")
    assert "0 of 3 members" in str(refusal.value)
    capsys.readouterr()
    assert main(["set", "controls", "mixed", "--json", *place]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["source"] == "dataset IN ('b')" and document["unmatched"] == 0


def test_a_match_has_the_same_outcome_and_task(halved: Workspace) -> None:
    halved.sets.create("one", where="key = '00'")
    for where in ("success AND instruction = 'task 1'", "NOT success AND instruction = 'task 0'"):
        with pytest.raises(RequestError, match="less than half of one@1 has a match: 0 of 1 member: another"):
            halved.sets.controls("one", where=where)
    frozen, _ = halved.sets.controls("one", where="success AND instruction = 'task 0' AND dataset = 'a'")
    (matched,) = frozen["matched"].ids()
    assert matched not in ids_of(halved, "key IN ('00', 'copy00')")
