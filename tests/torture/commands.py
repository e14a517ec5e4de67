"""Commands that are stopped at any of their file operations, and given again.

In between no reader may show half of one, and the end has to be that of a run that nothing stopped.
"""

from __future__ import annotations

import json
import random
import shutil
import tarfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_args

from tests.torture.children import ChildEnd, run_ares, run_child
from tests.torture.datasets import WRITERS
from tests.torture.syscalls import Fault, Injector
from tests.torture.trials import Attempt, Trial
from tests.torture.workspaces import WorkspaceState, read_state

Start = Literal["none", "small", "graded", "old"]
Stop = Literal["EIO", "ENOSPC", "kill", "torn", "EIO at a read", "kill at a time"]
_SECONDS = 120.0
_RANDOM_KILLS = 40
_STEPS, _SUCCESS, _FROZEN = "num_steps >= 0 AND dataset = 'first'", "success", "reader"
# What a reader says where it cannot show everything (yet).
_NAMED = ("do not show", "completed action", "completed a purge")
_OLD_WORKSPACE = Path(__file__).resolve().parents[1] / "fixtures" / "workspace_v1.tar.xz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command that is stopped.

    Attributes:
        words: Arguments of `ares`: "{second}" is a dataset, "{exported}" a new folder, "{answers}" a file of a review.
        first: Commands before it.
        start: The workspace before those: none, a small one, that of the demo, or one of an older layout.
        is_whole: Whether no reader may see a part of it; a job over many episodes stores them part by part.
    """

    words: Sequence[str]
    first: Sequence[Sequence[str]] = ()
    start: Start = "small"
    is_whole: bool = True


def _list_commands(start: Start, where: str) -> dict[str, Command]:
    """What is tried on the workspaces of the demo and of small recordings alike."""
    tag, removal = ("tag", "add", "odd", "--where", where), ("remove", "--where", where, "--yes")
    words: dict[str, tuple[Sequence[str], Sequence[Sequence[str]]]] = {
        "tag": (tag, ()),
        "set create": (("set", "create", "chosen", "--where", where), ()),
        "remove": (removal, ()),
        "purge": (("remove", "--purge", "--where", where, "--yes"), ()),
        "undo": (("undo",), (tag, removal)),
        "undo 2": (("undo", "2"), (tag, removal)),
    }
    return {name: Command(words=own, first=first, start=start) for name, (own, first) in words.items()}


_REMOVAL = ("remove", "--where", _STEPS, "--yes")
COMMANDS: Mapping[str, Command] = {
    "first ingest": Command(words=("ingest", "{first}"), start="none", is_whole=False),
    "ingest": Command(words=("ingest", "{second}"), is_whole=False),
    "annotate": Command(words=("annotate", "motion"), is_whole=False),
    **_list_commands("small", _STEPS),
    "undo of a removal": Command(words=("undo",), first=(_REMOVAL,)),
    "purge of removed": Command(
        words=("remove", "--purge", "--dataset", "first", "--yes"), first=(_REMOVAL,)
    ),
    "note": Command(words=("note", "it slips", "--where", _STEPS)),
    "set rename": Command(words=("set", "rename", "all", "every")),
    "set delete": Command(words=("set", "delete", "all", "--yes")),
    "accept failures": Command(words=("failures", "accept", "no reply", "--yes")),
    "use": Command(words=("use", "quality=newest")),
    "export": Command(words=("export", "all", "{exported}", "--format", "parquet"), is_whole=False),
    "doctor --rebuild": Command(words=("doctor", "--rebuild")),
    "migration": Command(words=("status",), start="old", is_whole=False),
    "search": Command(words=("search", "cup")),
    "set list": Command(words=("set", "list")),
    "doctor": Command(words=("doctor",)),
}
# The same on episodes with grades, segments and vectors.
ACTIONS: Mapping[str, Command] = {
    **{f"graded {name}": command for name, command in _list_commands("graded", _SUCCESS).items()},
    "graded review import": Command(words=("review", "import", "{answers}"), start="graded"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Undisturbed:
    """What a command does that nothing stops.

    Attributes:
        before: The workspace before it.
        after: The workspace after it.
        exported: Files that it exports.
        end: Its end.
        writes: How many operations it makes that change something.
        reads: How many reads it makes.
    """

    before: WorkspaceState | None
    after: WorkspaceState
    exported: list[str]
    end: ChildEnd
    writes: int
    reads: int


@dataclass(slots=True)
class Laboratory:
    """Workspaces, copies of which commands work on, and the datasets "first" and "second".

    Args:
        folder: Where everything is written.
    """

    folder: Path
    _known: dict[str, Undisturbed] = field(default_factory=dict)

    @property
    def sources(self) -> tuple[Path, Path]:
        """Datasets: three recordings, which the small workspace holds, and two others."""
        first, second = self.folder / "first", self.folder / "second"
        if not second.exists():
            WRITERS["mcap"](first, 3, "first")
            WRITERS["bag"](second, 2, "second")
        return first, second

    def copy(self, start: Start, name: str = "", first: Sequence[Sequence[str]] = ()) -> Path:
        """A fresh copy of a workspace on which some commands were carried out.

        Args:
            start: The workspace.
            name: Of the command that is tried next; "doctor --rebuild" needs damage.
            first: The commands.
        """
        workspace, ready = self.folder / "ws", self.folder / f"before-{start}-{name}".replace(" ", "-")
        for path in (workspace, _exported_folder(workspace)):
            shutil.rmtree(path, ignore_errors=True)
        if start == "none":
            return workspace
        if not ready.exists():
            shutil.copytree(self._make_start(start), ready)
            for words in first:
                self.require(words, ready)
            if name == "doctor --rebuild":
                run_child(lambda: _damage(str(ready)), seconds=_SECONDS)
        shutil.copytree(ready, workspace)
        return workspace

    def _make_start(self, start: Start) -> Path:
        made = self.folder / f"made-{start}"
        if made.exists():
            return made
        if start == "old":
            with tarfile.open(_OLD_WORKSPACE) as archive:
                archive.extractall(self.folder / "unpacked", filter="data")
            next((self.folder / "unpacked").rglob("workspace.json")).parent.rename(made)
        elif start == "graded":
            self.require(("demo", "--no-serve"), made)
            answers = run_child(lambda: _write_answers(made, self.folder / "answers.csv"), seconds=_SECONDS)
            assert answers.status == 0, answers.errors
        else:
            self.require(("ingest", str(self.sources[0])), made)
            self.require(("set", "create", "all"), made)
            run_child(lambda: _add_failures(str(made)), seconds=_SECONDS)
        return made

    def require(self, words: Sequence[str], workspace: Path) -> None:
        """Carry out a command that has to end well."""
        end = run_ares([*words, "-w", str(workspace), "-q"], seconds=10 * _SECONDS)
        assert end.status == 0, (words, end.output, end.errors)

    def run(self, words: Sequence[str], workspace: Path, **limits: Any) -> ChildEnd:
        """Carry out a command of the tables."""
        return run_ares(self.command_line(words, workspace), seconds=_SECONDS, **limits)

    def command_line(self, words: Sequence[str], workspace: Path) -> list[str]:
        """The arguments of `ares` with paths in the place of words in braces."""
        first, second = map(str, self.sources)
        places = {
            "{first}": first,
            "{second}": second,
            "{exported}": str(_exported_folder(workspace)),
            "{answers}": str(self.folder / "answers.csv"),
        }
        return [*(places.get(word, word) for word in words), "-w", str(workspace), "--json"]

    def known(self, name: str) -> Undisturbed:
        """What a command does that nothing stops."""
        if name not in self._known:
            command = _find_command(name)
            start = self.copy(command.start, name, command.first)
            before = None if command.start == "none" else read_in_child(start)
            counts = []
            for reads in (True, False):
                workspace = self.copy(command.start, name, command.first)
                injector = Injector(folders=self._folders(workspace, reads), reads=reads)
                end = injector.run(partial(self.run, command.words, workspace))
                assert end.status == 0, (name, end.output, end.errors)
                counts.append(injector.count)
            self._known[name] = Undisturbed(
                before=before, after=read_in_child(workspace), exported=_exported(workspace), end=end,
                reads=counts[0], writes=counts[1],
            )  # fmt: skip
        return self._known[name]

    def _folders(self, workspace: Path, reads: bool) -> tuple[str, ...]:
        return (str(workspace), *(map(str, self.sources) if reads else ()))

    def stop(self, name: str, stop: Stop, at: int) -> Trial:
        """Stop a command, let a reader look, and give it again.

        Args:
            name: Of the command.
            stop: What happens.
            at: Number of the operation, from 1; for a kill at a time its number of milliseconds.
        """
        known, command = self.known(name), _find_command(name)
        workspace = self.copy(command.start, name, command.first)
        where = f"after {at} ms"
        if stop == "kill at a time":
            end = self.run(command.words, workspace, kill_after=at / 1_000)
        else:
            reads = stop == "EIO at a read"
            fault: Fault = "EIO" if stop == "EIO at a read" else stop
            injector = Injector(folders=self._folders(workspace, reads), at=at, fault=fault, reads=reads)
            end = injector.run(partial(self.run, command.words, workspace))
            hit = injector.hit.replace(str(self.folder), "")
            where = f"at {at} of {known.reads if reads else known.writes} ({hit})"
        problem = "" if _is_killed(end, stop) else end.fault
        if not problem and end.status not in (0, 1, 2, -9):
            problem = f"status {end.status}: {end.errors[-300:]}"
        problem = problem or self._problem(name, workspace, end, stop, at)
        return Trial(
            group=f"{stop}, {'graded' if command.start == 'graded' else 'small'} workspace",
            name=f"{name}: {stop} {where}",
            problem=problem,
            seconds=end.seconds,
            peak_bytes=end.peak_bytes,
        )

    def _problem(self, name: str, workspace: Path, end: ChildEnd, stop: Stop, at: int) -> str:
        known, command = self.known(name), _find_command(name)
        if end.status == known.end.status:
            return _difference("it said that it was done", workspace, known)
        if stop == "ENOSPC" and command.start in ("small", "graded"):
            problem = _problem_of_full_disk(command, workspace, known)
            if problem:
                return problem
        is_done = False
        if (workspace / "workspace.json").exists():
            probe = self.folder / "probe"
            shutil.rmtree(probe, ignore_errors=True)
            shutil.copytree(workspace, probe)
            look = run_child(lambda: _read_look(str(probe), at % 2 == 1), seconds=_SECONDS)
            if look.value is None:
                return f"a reader failed: {look.errors[-500:]}"
            if command.is_whole and (problem := _problem_of_look(look, known)):
                return problem
            is_done = look.value.is_done(known) and _exported(workspace) == known.exported
        if is_done:  # stopped after its last write
            return ""
        again = self.run(command.words, workspace)
        if again.status != known.end.status:
            first = f"{end.status} {end.errors[-200:]}"
            return f"given again it ended with {again.status}: {again.errors[-300:]} (at first: {first})"
        return again.fault or _difference("given again", workspace, known)


def _find_command(name: str) -> Command:
    return {**COMMANDS, **ACTIONS}[name]


def _is_killed(end: ChildEnd, stop: Stop) -> bool:
    return stop in ("kill", "torn", "kill at a time") and end.status == -9 and not end.exceeded


def _exported_folder(workspace: Path) -> Path:
    return workspace.with_name(f"{workspace.name}-exported")


def _exported(workspace: Path) -> list[str]:
    folder = _exported_folder(workspace)
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def read_in_child(workspace: Path) -> WorkspaceState:
    """What a workspace holds, read in a separate process. Raises AssertionError where it cannot be read."""
    end = run_child(lambda: read_state(str(workspace)), seconds=_SECONDS)
    assert isinstance(end.value, WorkspaceState), f"the workspace cannot be read: {end.errors[-400:]}"
    return end.value


def _difference(label: str, workspace: Path, known: Undisturbed) -> str:
    problem = read_in_child(workspace).difference(known.after)
    if not problem and _exported(workspace) != known.exported:
        problem = f"exported {_exported(workspace)} in place of {known.exported}"
    return f"{label}: {problem}" if problem else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What readers find in a stopped workspace.

    Attributes:
        lag: What its tables do not show of its log, before anything was completed; "" for nothing.
        state: What a reader shows.
        frozen: Episodes of a set of all, or why none was frozen.
    """

    lag: str
    state: WorkspaceState
    frozen: int | str

    def is_done(self, known: Undisturbed) -> bool:
        """Whether nothing was left to do."""
        return not self.lag and not self.state.difference(known.after)


def _read_look(path: str, freezes_first: bool) -> Look:
    from ares.settings import settings_from_environment
    from ares.store import open_stores

    stores = open_stores(path, settings_from_environment({}), compare=False)
    lag = str(stores.find_lag() or "")
    stores.close()
    frozen = _freeze(path) if freezes_first else 0
    state = read_state(path)
    state = replace(state, sets={name: own for name, own in state.sets.items() if name != _FROZEN})
    return Look(lag=lag, state=state, frozen=frozen if freezes_first else _freeze(path))


def _freeze(path: str) -> int | str:
    import ares
    from ares.errors import AresError

    try:
        with ares.open(path) as workspace:
            return workspace.sets.create(_FROZEN, where="num_steps > 0").episodes
    except AresError as error:
        return 0 if "the set would be empty" in str(error) else str(error)


def _problem_of_look(end: ChildEnd, known: Undisturbed) -> str:
    """A reader shows the state before or after, or says what it does not show; a set is frozen of either."""
    look, states = end.value, [state for state in (known.before, known.after) if state is not None]
    differences = [look.state.difference(state) for state in states]
    if all(differences) and not any(word in end.errors for word in _NAMED):
        return f"a reader shows neither: {' / '.join(differences)}; {end.errors[-200:]}"
    expected = {len(state.rows) for state in states}
    return "" if look.frozen in expected else f"a set was frozen of {look.frozen} in place of {expected}"


def _problem_of_full_disk(command: Command, workspace: Path, known: Undisturbed) -> str:
    """Whether a reader reads while the disk is still full, and shows nothing half done."""
    injector = Injector(folders=(str(workspace),), at=1, fault="ENOSPC")
    words = ["status", "-w", str(workspace), "--json"]
    end = injector.run(lambda prepare: run_ares(words, seconds=_SECONDS, prepare=prepare))
    if end.status not in (0, 1) or end.fault:
        return f"`ares status` on the full disk ended with {end.status}: {end.errors[-300:]}"
    counts = {len(state.rows) for state in (known.before, known.after) if state is not None}
    shown = json.loads(end.output)["episodes"]
    if end.status == 0 and command.is_whole and shown not in counts:
        return f"`ares status` shows {shown} episodes in place of {sorted(counts)}, and says nothing"
    return ""


def stop_attempts(
    laboratory: Laboratory, commands: Mapping[str, Command], rng: random.Random, match: str
) -> Iterator[Attempt]:
    """Every command stopped in every way at every operation: ways by turns, operations in random order.

    Args:
        laboratory: Where they are tried.
        commands: The commands.
        rng: Decides the order.
        match: Only ways whose name, such as "undo: kill", holds this text.
    """
    ways = [(name, stop) for name in commands for stop in get_args(Stop) if match in f"{name}: {stop}"]
    shuffled = rng.sample(ways, len(ways))
    waiting = deque(_shuffled_points(laboratory, rng, *way) for way in shuffled)
    while waiting:
        for attempt in islice(waiting[0], 1):
            yield attempt
            waiting.append(waiting[0])
        waiting.popleft()


def _shuffled_points(laboratory: Laboratory, rng: random.Random, name: str, stop: Stop) -> Iterator[Attempt]:
    known = laboratory.known(name)
    count = known.reads if stop == "EIO at a read" else known.writes
    points = range(1, count + 1)
    if stop == "kill at a time":
        points = range(1, int(known.end.seconds * 1_100))
    for at in rng.sample(points, min(len(points), _RANDOM_KILLS if stop == "kill at a time" else count)):
        yield partial(laboratory.stop, name, stop, at)


def _write_answers(workspace: Path, path: Path) -> None:
    """Write a file in which a person says of every episode and of every caption whether it is right."""
    import ares

    with ares.open(str(workspace)) as opened:
        ids = sorted(opened.stores.tables.episodes.ids())
        captions = list(opened.stores.annotations.find_annotations(ids, ["caption"]))
    lines = ["question,subject_id,verdict,person"]
    lines += [f"success,{id},{'success' if n % 2 else 'failure'},Ada" for n, id in enumerate(ids)]
    lines += [
        f"acceptable,{own.annotation_id},{'met' if n % 3 else 'unmet'},Ada" for n, own in enumerate(captions)
    ]
    path.write_text("\n".join(lines) + "\n")


def _add_failures(path: str) -> None:
    failure = {"reason": "no reply", "detail": "", "at": ""}
    _change_stores(
        path,
        lambda stores: stores.annotations.put_documents(
            "failures", {f"grade/0123/{number}": failure for number in range(3)}
        ),
    )


def _damage(path: str) -> None:
    """Let a table lose a value."""
    import pyarrow as pa

    def damage(stores: Any) -> None:
        first = sorted(stores.tables.episodes.ids())[:1]
        wrong = {"episode_id": first, "quality_findings": pa.array([99], pa.int64())}
        stores.tables.episodes.set_values(pa.table(wrong))

    _change_stores(path, damage)


def _change_stores(path: str, change: Callable[[Any], object]) -> None:
    from ares.settings import settings_from_environment
    from ares.store import open_stores

    stores = open_stores(path, settings_from_environment({}))
    change(stores)
    stores.close()
