"""Actions that are killed, or whose every write fails, on a workspace with grades: no reader shows half of one."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tests.torture.children import ChildEnd, run_ares, run_child
from tests.torture.syscalls import Fault, Injector
from tests.torture.trials import Attempt, Trial

GROUP = "an action that stops half way"
_FAULTS: tuple[Fault, ...] = ("kill", "EIO", "ENOSPC")
_SECONDS = 120.0
# What a reader says where it cannot show everything (yet).
_NAMED = ("do not show", "completed action", "completed a purge")
_WHERE, _FROZEN = "success", "reader"
# Columns of a row that are no answer of ARES: when a row was written, and where its copy of the workspace lies.
_APART = ("ingested", "source_stamp", "camera_stamps", "source")


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """An action that is disturbed.

    Attributes:
        words: Arguments of `ares`.
        first: Commands before it.
        again: Whether the same command given again ends with status 0.
    """

    words: Sequence[str]
    first: Sequence[Sequence[str]] = ()
    again: bool = True


def list_actions(answers: Path) -> Mapping[str, Action]:
    """Every action, by name.

    Args:
        answers: A file of answers of a review, see `write_answers`.
    """
    tag, removal = ("tag", "add", "odd", "--where", _WHERE), ("remove", "--where", _WHERE, "--yes")
    return {
        "undo": Action(words=("undo",), first=(tag, removal)),
        "undo 2": Action(words=("undo", "2"), first=(tag, removal)),
        "remove": Action(words=removal, again=False),
        "purge": Action(words=("remove", "--purge", "--where", _WHERE, "--yes")),
        "tag": Action(words=tag),
        "set create": Action(words=("set", "create", "more", "--where", _WHERE)),
        "review import": Action(words=("review", "import", str(answers))),
    }


def write_answers(workspace: Path, path: Path) -> None:
    """Write a file in which a person says of every episode and of every caption whether it is right."""
    import ares

    with ares.open(str(workspace)) as opened:
        ids = sorted(opened.stores.tables.episodes.ids())
        captions = [
            note.annotation_id for note in opened.stores.annotations.find_annotations(ids, ["caption"])
        ]
    lines = [
        f"success,{episode_id},{'success' if number % 2 else 'failure'},Ada"
        for number, episode_id in enumerate(ids)
    ]
    lines += [
        f"acceptable,{subject},{'met' if number % 3 else 'unmet'},Ada"
        for number, subject in enumerate(captions)
    ]
    path.write_text("\n".join(["question,subject_id,verdict,person", *lines]) + "\n")


def read_rows(path: str) -> dict[str, Any]:
    """What a reader shows that distinguishes two states: every column of episodes and segments, sets, status."""
    import ares

    with ares.open(path) as workspace:
        tables = workspace.stores.tables
        names = sorted(set(tables.episodes.columns()) - set(_APART))
        rows = {str(row["episode_id"]): row for row in tables.episodes.read_columns(names).to_pylist()}
        segments = tables.segments.scan(sorted(tables.segments.columns())).to_pylist()
        return {
            "rows": rows,
            "segments": {str(row["annotation_id"]): row for row in segments},
            "status": {key: value for key, value in workspace.status().to_json().items() if key != "sets"},
            "sets": {name: len(list(workspace.sets[name])) for name in workspace.sets if name != _FROZEN},
        }


@dataclass(slots=True)
class GradedWorkspace:
    """The workspace of the demo, copies of which actions work on.

    Args:
        folder: Where it is made, and copied.
    """

    folder: Path
    _known: dict[str, tuple[str, str, int]] = field(default_factory=dict)

    @property
    def start(self) -> Path:
        """The workspace, which stays as it is; made where it is missing."""
        start = self.folder / "start"
        if not start.exists():
            end = run_ares(["demo", "--no-serve", "-w", str(start), "-q"], seconds=10 * _SECONDS)
            assert end.status == 0, end.errors
        return start

    @property
    def answers(self) -> Path:
        """A file of answers of a review."""
        path = self.folder / "answers.csv"
        if not path.exists():
            end = run_child(lambda: write_answers(self.start, path), seconds=_SECONDS)
            assert end.status == 0, end.errors
        return path

    def copy(self, action: Action) -> Path:
        """A copy on which the action can be done."""
        workspace, ready = self.folder / "ws", self.folder / f"after-{len(action.first)}-actions"
        if not ready.exists():
            shutil.copytree(self.start, ready)
            for words in action.first:
                end = run_ares([*words, "-w", str(ready), "-q"], seconds=_SECONDS)
                assert end.status == 0, (words, end.errors)
        shutil.rmtree(workspace, ignore_errors=True)
        shutil.copytree(ready, workspace)
        return workspace

    def known(self, name: str) -> tuple[str, str, int]:
        """What readers show before and after an action, and how many operations it makes."""
        if name not in self._known:
            action = list_actions(self.answers)[name]
            workspace = self.copy(action)
            before = _read(workspace)
            injector = Injector(folders=(str(workspace),))
            end = injector.run(partial(_run, action.words, workspace))
            assert end.status == 0, (name, end.errors)
            self._known[name] = before, _read(workspace), injector.count
        return self._known[name]


def _run(words: Sequence[str], workspace: Path, prepare: Callable[[], None] = lambda: None) -> ChildEnd:
    return run_ares([*words, "-w", str(workspace), "--json"], seconds=_SECONDS, prepare=prepare)


def _read(workspace: Path) -> str:
    """What a reader in a separate process shows, as text; a reader that fails shows its error."""
    end = run_child(lambda: _canonical(str(workspace)), seconds=_SECONDS)
    return str(end.value or end.errors[-500:])


def _canonical(path: str) -> str:
    return json.dumps(read_rows(path), sort_keys=True, default=str)


def _freeze(path: str) -> int | str:
    """Number of episodes of a set of all, or why none was frozen."""
    import ares
    from ares.errors import AresError

    try:
        with ares.open(path) as workspace:
            return workspace.sets.create(_FROZEN, where="num_steps > 0").episodes
    except AresError as error:
        return str(error)


def _read_by_turns(path: str, freezes_first: bool) -> tuple[str, int | str]:
    frozen = _freeze(path) if freezes_first else 0
    shown = _canonical(path)
    return shown, frozen if freezes_first else _freeze(path)


def stop_attempts(graded: GradedWorkspace, rng: random.Random, match: str) -> Iterator[Attempt]:
    """Every fault at every operation of every action, the actions by turns and the operations in random order.

    Args:
        graded: The workspace.
        rng: Decides the order.
        match: Only actions and faults whose name, such as "undo: kill", holds this text.
    """
    kinds = [(name, fault) for name in list_actions(graded.answers) for fault in _FAULTS]
    kinds = [(name, fault) for name, fault in kinds if match in f"{name}: {fault}"]
    for points in zip_longest(
        *(_shuffled_points(graded, rng, *kind) for kind in rng.sample(kinds, len(kinds)))
    ):
        yield from filter(None, points)


def _shuffled_points(
    graded: GradedWorkspace, rng: random.Random, name: str, fault: Fault
) -> Iterator[Attempt]:
    count = graded.known(name)[2]
    for at in rng.sample(range(1, count + 1), count):
        yield partial(stop_action, graded, name, fault, at)


def stop_action(graded: GradedWorkspace, name: str, fault: Fault, at: int) -> Trial:
    """Stop an action at one operation, let two readers look, and give it again.

    Args:
        graded: The workspace.
        name: Of the action.
        fault: What happens.
        at: Number of the operation, from 1.
    """
    (before, after, count), action = graded.known(name), list_actions(graded.answers)[name]
    workspace = graded.copy(action)
    injector = Injector(folders=(str(workspace),), at=at, fault=fault)
    end = injector.run(partial(_run, action.words, workspace))
    problem = "" if end.status == -9 and fault == "kill" else end.fault
    if not problem and end.status not in (0, 1, 2, -9):
        problem = f"status {end.status}: {end.errors[-300:]}"
    problem = problem or _problem_of_readers(workspace, at, before, after)
    if not problem:
        last = run_child(lambda: _problem_at_the_end(workspace, action, after), seconds=_SECONDS)
        problem = last.fault or str(last.value)
    hit = injector.hit.replace(str(workspace), "")
    return Trial(
        group=GROUP, name=f"{name}: {fault} at {at} of {count} ({hit})", problem=problem, seconds=end.seconds
    )


def _problem_of_readers(workspace: Path, at: int, before: str, after: str) -> str:
    """A set is frozen by turns before or after another reader has looked, which may complete the action."""
    end = run_child(lambda: _read_by_turns(str(workspace), at % 2 == 1), seconds=_SECONDS)
    if end.value is None:
        return f"a reader failed: {end.errors[-500:]}"
    shown, frozen = end.value
    if shown not in (before, after) and not any(word in end.errors for word in _NAMED):
        differences = f"{_first_difference(shown, before)} / {_first_difference(shown, after)}"
        return f"a reader shows neither: {differences}; {end.errors[-200:]}"
    expected = {len(json.loads(text)["rows"]) for text in (before, after)}
    return "" if frozen in expected else f"a set was frozen of {frozen} in place of {expected}"


def _problem_at_the_end(workspace: Path, action: Action, after: str) -> str:
    """The same command again ends well, and the doctor finds nothing."""
    problem = ""
    if action.words == ("undo",):
        problem = _problem_of_bare_undo(str(workspace))
    elif action.again:
        status, _, said = _call(str(workspace), action.words)
        problem = "" if status == 0 else f"given again: {said[-300:]}"
        if not problem and _canonical(str(workspace)) != after:
            problem = "given again it shows something else"
    status, found, _ = _call(str(workspace), ("doctor",))
    return problem or ("" if status == 0 else f"doctor: {found[-400:]}")


def _problem_of_bare_undo(path: str) -> str:
    """Two actions are done before: the undo takes back the second, and the same again not the first."""
    if _undone_numbers(path) == [2]:
        return ""  # a reader, or the command itself, has said so
    status, _, said = _call(path, ("undo",))
    numbers = _undone_numbers(path)
    return "" if numbers == [2] and status == 0 else f"took back {numbers}: {said[-300:]}"


def _undone_numbers(path: str) -> list[int]:
    actions = json.loads(_call(path, ("undo", "--list"))[1])
    return [action["details"]["undoes"] for action in actions if action["kind"] == "undo"]


def _call(path: str, words: Sequence[str]) -> tuple[int, str, str]:
    """Status, output and errors of a command in this process."""
    import contextlib
    import io

    from app.cli.main import main

    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        status = main([*words, "-w", path, "--json"])
    return int(status), out.getvalue(), err.getvalue()


def _first_difference(one: str, other: str) -> str:
    at = next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), 0)
    return f"{one[max(0, at - 60) : at + 60]!r} is not {other[max(0, at - 60) : at + 60]!r}"
