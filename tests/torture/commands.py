"""Fails or kills commands at any of their writes, then gives them again: the end is that of an undisturbed run."""

from __future__ import annotations

import json
import random
import shutil
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.torture.children import ChildEnd, run_ares, run_child
from tests.torture.datasets import WRITERS
from tests.torture.syscalls import Fault, Injector
from tests.torture.trials import Trial

FAULTS: tuple[Fault, ...] = ("ENOSPC", "EIO", "kill")
_SECONDS = 120.0
_SHORT = "num_steps >= 0 AND dataset = 'first'"
# What was done before each command, and the command; "{second}" is a dataset, "{exported}" a new folder.
COMMANDS: dict[str, tuple[Sequence[Sequence[str]], Sequence[str]]] = {
    "ingest": ((), ("ingest", "{second}")),
    "annotate motion": ((), ("annotate", "motion")),
    "tag": ((), ("tag", "add", "odd", "--where", _SHORT)),
    "note": ((), ("note", "it slips", "--where", _SHORT)),
    "remove": ((), ("remove", "--where", _SHORT, "--yes")),
    "undo of a removal": ((("remove", "--where", _SHORT, "--yes"),), ("undo",)),
    "undo of a tag": ((("tag", "add", "odd", "--where", _SHORT),), ("undo",)),
    "set create": ((), ("set", "create", "chosen", "--where", _SHORT)),
    "set rename": ((), ("set", "rename", "all", "every")),
    "set delete": ((), ("set", "delete", "all", "--yes")),
    "clear failures": ((), ("failures", "clear", "--reason", "no reply", "--yes")),
    "use": ((), ("use", "quality={quality}")),
    "export": ((), ("export", "all", "{exported}", "--format", "parquet")),
    "purge": ((), ("remove", "--purge", "--where", _SHORT, "--yes")),
    "purge of removed": (
        (("remove", "--where", _SHORT, "--yes"),),
        ("remove", "--purge", "--dataset", "first", "--yes"),
    ),
    "doctor --repair": ((), ("doctor", "--repair")),
    "migration": ((), ("status",)),
}
_OLD_WORKSPACE = Path(__file__).resolve().parents[1] / "fixtures" / "workspace_v1.tar.xz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command that is disturbed.

    Attributes:
        name: Key in `COMMANDS`.
        arguments: What follows `ares`, without the workspace.
        start: The workspace before it.
        folder: Where workspaces are copied to.
        before: What the workspace holds before it.
        after: What an undisturbed run leaves.
        operations: File operations of that run that change something.
        seconds: How long it took.
    """

    name: str
    arguments: tuple[str, ...]
    start: Path
    folder: Path
    before: dict[str, Any]
    after: dict[str, Any]
    operations: int
    seconds: float

    def run(self, workspace: Path, **limits: Any) -> ChildEnd:
        """Run it on a workspace."""
        exported = str(workspace.with_name(f"{workspace.name}-exported"))
        arguments = [argument.replace("{exported}", exported) for argument in self.arguments]
        return run_ares([*arguments, "-w", str(workspace), "--json"], seconds=_SECONDS, **limits)

    def copy(self, name: str) -> Path:
        """A fresh copy of the workspace before it."""
        workspace = self.folder / name
        for path in (workspace, workspace.with_name(f"{name}-exported")):
            shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.start, workspace)
        return workspace


def prepare(name: str, folder: Path) -> Command:
    """Make the workspace before a command, and run it undisturbed."""
    own = folder / name.replace(" ", "-")
    second = _make_start(name, folder, own)
    shutil.copytree(own / "start", own / "before")
    before = _content(own / "before")
    arguments = COMMANDS[name][1]
    words = {"{second}": str(second), "{quality}": before["quality"]}
    command_line = tuple(_replace_words(argument, words) for argument in arguments)
    blank = Command(
        name=name,
        arguments=command_line,
        start=own / "start",
        folder=own,
        before=before,
        after={},
        operations=0,
        seconds=0.0,
    )
    workspace = blank.copy("undisturbed")
    injector = Injector(folders=(str(workspace),))
    end = injector.run(lambda prepare: blank.run(workspace, prepare=prepare))
    _require(end)
    return Command(
        name=name,
        arguments=command_line,
        start=own / "start",
        folder=own,
        before=before,
        after=_content(workspace),
        operations=injector.count,
        seconds=end.seconds,
    )


def _make_start(name: str, folder: Path, own: Path) -> Path:
    """Make the workspace before a command as the folder "start" of its own. Returns a dataset that is not in it."""
    first, second, start = folder / "first", folder / "second", folder / "start"
    if not start.exists():
        WRITERS["mcap"](first, 3, "first")
        WRITERS["bag"](second, 2, "second")
        _require(run_ares(["ingest", str(first), "-w", str(start), "-q"]))
        _require(run_ares(["set", "create", "all", "-w", str(start), "-q"]))
        run_child(lambda: _add_failures(str(start)), seconds=_SECONDS)
    shutil.rmtree(own, ignore_errors=True)
    if name == "migration":
        with tarfile.open(_OLD_WORKSPACE) as archive:
            archive.extractall(own / "unpacked", filter="data")
        next((own / "unpacked").rglob("workspace.json")).parent.rename(own / "start")
        return second
    shutil.copytree(start, own / "start")
    for command in COMMANDS[name][0]:
        _require(run_ares([*command, "-w", str(own / "start"), "-q"]))
    if name == "doctor --repair":
        run_child(lambda: _damage(str(own / "start")), seconds=_SECONDS)
    return second


def command_points(command: Command) -> list[tuple[Fault, int]]:
    """Every fault at every operation that changes something."""
    return [(fault, at) for fault in FAULTS for at in range(1, command.operations + 1)]


def command_trials(command: Command, points: Iterable[tuple[Fault, int]]) -> Iterator[Trial]:
    """Disturb the command at given operations, look at the workspace, and give the command again."""
    for fault, at in points:
        workspace = command.copy("disturbed")
        injector = Injector(folders=(str(workspace),), at=at, fault=fault)
        end = injector.run(lambda prepare, at=workspace: command.run(at, prepare=prepare))
        hit = injector.hit.replace(str(workspace), "")
        yield _trial(
            command, workspace, end, f"{fault} at an operation of a command", f"operation {at} ({hit})", fault
        )


def command_kills(command: Command, rng: random.Random, rounds: int) -> Iterator[Trial]:
    """Kill the command at random times, look at the workspace, and give the command again."""
    for _ in range(rounds):
        workspace, after = command.copy("killed"), rng.uniform(0, command.seconds * 1.1)
        end = command.run(workspace, kill_after=after)
        yield _trial(command, workspace, end, "kill -9 of a command", f"after {after:.3f} s", "kill")


def _trial(command: Command, workspace: Path, end: ChildEnd, group: str, name: str, fault: Fault) -> Trial:
    killed = fault == "kill" and end.status == -9 and not end.exceeded
    problem = ("" if killed else end.fault) or _problem(command, workspace, end, fault)
    return Trial(
        group=group,
        name=f"{command.name}: {name}",
        problem=problem,
        seconds=end.seconds,
        peak_bytes=end.peak_bytes,
    )


def _problem(command: Command, workspace: Path, end: ChildEnd, fault: Fault) -> str:
    """What was wrong with the workspace after a disturbed command, or with the same command given again; or ""."""
    if end.status == 0:
        return _difference("the command said that it was done", _content(workspace), command.after)
    reads = command.name != "migration"  # which a workspace of an older layout needs first
    if fault == "ENOSPC" and reads and (problem := _read_full(command, workspace)):
        return problem
    if _is_done(command, workspace):  # killed after its last write
        return ""
    again = command.run(workspace)
    if again.status != 0:
        first = f"{end.status} {end.errors[-200:]}"
        return f"given again it ended with {again.status}: {again.errors[-300:]} (at first: {first})"
    return _difference("given again", _content(workspace), command.after)


def _read_full(command: Command, workspace: Path) -> str:
    """Whether a reader reads while the disk is still full, and shows nothing half done."""
    injector = Injector(folders=(str(workspace),), at=1, fault="ENOSPC")
    line = ["status", "-w", str(workspace), "--json"]
    end = injector.run(lambda prepare: run_ares(line, seconds=_SECONDS, prepare=prepare))
    if end.status not in (0, 1) or end.fault:
        return f"`ares status` on the full disk ended with {end.status}: {end.errors[-300:]}"
    counts = {command.before["count"], command.after["count"]}
    shown = json.loads(end.output)["episodes"]
    # A job over many episodes stores them part by part.
    if end.status == 0 and command.name != "ingest" and shown not in counts:
        return f"`ares status` shows {shown} episodes in place of {sorted(counts)}, and says nothing"
    return ""


def _is_done(command: Command, workspace: Path) -> bool:
    """Whether nothing is left to do, judged on a copy without its being completed."""
    probe = workspace.with_name("probe")
    shutil.rmtree(probe, ignore_errors=True)
    shutil.copytree(workspace, probe)
    for suffix in ("-exported",):
        source = workspace.with_name(f"{workspace.name}{suffix}")
        shutil.rmtree(probe.with_name(f"probe{suffix}"), ignore_errors=True)
        if source.exists():
            shutil.copytree(source, probe.with_name(f"probe{suffix}"))
    lag = run_child(lambda: _lag(str(probe)), seconds=_SECONDS).value
    return lag == "" and not _difference("", _content(probe), command.after)


def _lag(path: str) -> str:
    from ares.settings import settings_from_environment
    from ares.store import open_stores

    stores = open_stores(path, settings_from_environment({}), compare=False)
    lag = str(stores.find_lag() or "")
    stores.close()
    return lag


def _difference(label: str, found: dict[str, Any], expected: dict[str, Any]) -> str:
    for name, value in expected.items():
        if found.get(name) != value:
            return f"{label}: {name} is {str(found.get(name))[:300]} in place of {str(value)[:300]}"
    return ""


def _content(workspace: Path) -> dict[str, Any]:
    end = run_child(lambda: _read_content(str(workspace)), seconds=_SECONDS)
    content: dict[str, Any] = end.value or {"problem": end.errors[-400:]}
    exported = workspace.with_name(f"{workspace.name}-exported")
    content["exported"] = sorted(str(path.relative_to(exported)) for path in exported.rglob("*"))
    return content


def _read_content(path: str) -> dict[str, Any]:
    """All by which a user could distinguish two workspaces, but times of day, read after the next command's open."""
    from ares.curation import Sets
    from ares.doctor import run_checks
    from ares.settings import settings_from_environment
    from ares.store import read_history
    from ares.workspace import open_workspace

    with open_workspace(path, settings_from_environment({})) as workspace:
        stores = workspace.stores
        tables, log = stores.tables, stores.annotations
        columns = sorted(set(tables.episodes.columns()) - {"ingested", "source_stamp", "camera_stamps"})
        rows = tables.episodes.read_columns(columns).to_pylist()
        history, sets = read_history(log), Sets(log)
        ids = sorted(str(row["episode_id"]) for row in rows)
        return {
            "findings": [f"{finding.check}: {finding.example}" for finding in run_checks(stores)],
            "count": len(rows),
            "rows": sorted(
                map(str, ({name: row[name] for name in columns if row[name] is not None} for row in rows))
            ),
            "removed": sorted(tables.removed.ids().to_pylist()),
            "actions": [
                (action.kind, action.count, history.is_effective(action)) for action in history.actions
            ],
            "sets": {name: [(item.version, item.ids_hash) for item in sets.versions(name)] for name in sets},
            "annotations": sorted(annotation.annotation_id for annotation in log.find_annotations(ids)),
            "failures": [key for key, _ in log.find_documents("failures")],
            "pins": dict(log.position().pins),
            "tombstones": [key for key, _ in log.find_documents("tombstones")],
            "quality": next(iter(log.producers())),
        }


def _add_failures(path: str) -> None:
    from ares.settings import settings_from_environment
    from ares.store import open_stores

    stores = open_stores(path, settings_from_environment({}))
    documents: dict[str, Any] = {
        f"grade/0123/{number}": {"reason": "no reply", "detail": "", "at": ""} for number in range(3)
    }
    stores.annotations.put_documents("failures", documents)
    stores.close()


def _damage(path: str) -> None:
    """Let the tables forget what they show, and lose a value."""
    import pyarrow as pa

    from ares.settings import settings_from_environment
    from ares.store import open_stores

    stores = open_stores(path, settings_from_environment({}))
    first = sorted(stores.tables.episodes.ids())[:1]
    stores.tables.episodes.set_values(
        pa.table({"episode_id": first, "quality_findings": pa.array([99], pa.int64())})
    )
    stores.close()


def _replace_words(argument: str, words: dict[str, str]) -> str:
    for word, text in words.items():
        argument = argument.replace(word, text)
    return argument


def _require(end: ChildEnd) -> None:
    assert end.status == 0, (end.output, end.errors)
