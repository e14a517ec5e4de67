"""Results of rollouts as people bring them in tables: each file is an action of the log, so `ares undo` takes it back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ares.console import visible
from ares.curation import Sets
from ares.errors import AresError, RequestError, SourceError, first_fault, shorten
from ares.input import STRICT_JSON, TableColumns, read_table
from ares.io import expanded_path
from ares.settings import user_name
from ares.store import (
    new_members_key,
    read_action_members,
    read_history,
    record_action,
    write_action_members,
)

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Action, AnnotationStore


_KIND = "evaluate"
_COLUMNS = TableColumns(needed=("policy", "task"), either=(("success",), ("score",)))
_NAMED_ROWS = 20
_Text = Annotated[str, Field(max_length=200)]


class Trial(NamedTuple):
    """One rollout of a policy.

    Attributes:
        policy: Name of the policy.
        task: The task.
        start: What says that another trial began alike: a start, a seed or both; "" where nothing does.
        score: 1 for a success, 0 for a failure, or what lies between.
    """

    policy: str
    task: str
    start: str
    score: float


class PolicySet(NamedTuple):
    """The set that a policy was trained on.

    Attributes:
        label: Name and version, such as "accepted@2".
        ids_hash: Hash of its members.
    """

    label: str
    ids_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedResults:
    """What became of the rows of a table of results.

    Attributes:
        added: Number of trials that are new.
        known: Number of trials that were added before.
        policies: Names of the policies in the table.
        action: Number of the action, which `ares undo` takes back; 0 where nothing is new.
        earlier: Numbers of actions that had added other content of the same file, which counts as well.
        bad_rows: Number of rows that could not be used.
        bad: Line and reason of the first of these.
    """

    added: int
    known: int
    policies: tuple[str, ...]
    action: int
    earlier: tuple[int, ...]
    bad_rows: int
    bad: tuple[str, ...]

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON."""
        return {name: cast("Json", getattr(self, name)) for name in self.__slots__}


class _ResultRow(BaseModel):
    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True, str_strip_whitespace=True)

    policy: Annotated[_Text, Field(min_length=1)]
    task: Annotated[_Text, Field(min_length=1)]
    set: _Text = ""
    start: _Text = ""
    seed: _Text = ""
    success: bool | None = None
    score: Annotated[float, Field(ge=0, le=1)] | None = None

    @model_validator(mode="after")
    def _needs_result(self) -> _ResultRow:
        if self.success is None and self.score is None:
            raise ValueError("neither success (true or false) nor score (0 to 1) is there")
        return self

    @property
    def trial(self) -> Trial:
        """The trial; a flag goes before a score."""
        score = self.score if self.success is None else self.success
        return Trial(
            self.policy, self.task, "/".join(filter(None, (self.start, self.seed))), float(score or 0)
        )


def add_results(log: AnnotationStore, path: str | Path, person: str = "") -> AddedResults:
    """Add the trials of a table that no earlier content of the same file had; a bad row is named, and costs the row.

    Args:
        log: The annotation log.
        path: A CSV, JSONL or Parquet file with the columns policy, task, success or score, and perhaps set, start, seed.
        person: Who adds them; the user by default.

    Raises:
        RequestError: It cannot be read, is no table or lacks a column.
        StoreError: The log cannot be written.
    """
    sets = read_policy_sets(log)
    reader = _RowReader(log, dict(sets))
    try:
        trials = list(reader.read(path))
    except SourceError as error:
        raise RequestError(error.reason, error.detail) from None
    name, digest = str(Path(path).resolve()), _hash_trials(trials)
    new, earlier, is_known = trials, list[int](), False
    for action in read_history(log).effective((_KIND,)):
        is_same = action.details["content"] == digest
        if is_same or action.details["file"] == name:
            rest = _without_known(new, list(_trials_of(log, action)))
            new, is_known = (new, is_known) if rest is None else (rest, True)
            earlier += [action.number] if rest is None else []
    stated = {policy: known for policy, known in reader.sets.items() if policy not in sets}
    number = 0
    if new or stated:
        details: dict[str, Json] = {
            "file": name,
            "content": digest,
            "sets": {policy: [*known] for policy, known in stated.items()},
        }
        with log.atomic():
            key = new_members_key()
            count = write_action_members(log, key, ([*trial] for trial in new))
            person = person.strip() or user_name()
            number = record_action(log, _KIND, person, count=count, members=key, details=details).number
    return AddedResults(
        added=len(new),
        known=len(trials) - len(new),
        policies=tuple(dict.fromkeys(trial.policy for trial in trials)),
        action=number,
        earlier=tuple(earlier),
        bad_rows=reader.bad_rows,
        bad=tuple(reader.bad),
    )


def read_trials(log: AnnotationStore) -> dict[str, list[Trial]]:
    """The trials of each policy in the order in which they were added. Raises StoreError."""
    by_policy: dict[str, list[Trial]] = {}
    for action in read_history(log).effective((_KIND,)):
        for trial in _trials_of(log, action):
            by_policy.setdefault(trial.policy, []).append(trial)
    return by_policy


def read_policy_sets(log: AnnotationStore) -> dict[str, PolicySet]:
    """The set of each policy of which one was stated, under its name of today. Raises StoreError."""
    stated: dict[str, PolicySet] = {}
    for action in read_history(log).effective((_KIND,)):
        for policy, known in cast("Mapping[str, Any]", action.details["sets"]).items():
            stated.setdefault(policy, PolicySet(*known))
    if not stated:
        return {}
    sets = Sets(log)
    today = [PolicySet(version.label, version.ids_hash) for name in sets for version in sets.versions(name)]
    labels = {known.ids_hash: known for known in today}  # also of a set that was renamed
    return {
        policy: known if known in today else labels.get(known.ids_hash, known)
        for policy, known in stated.items()
    }


def _trials_of(log: AnnotationStore, action: Action) -> Iterator[Trial]:
    return (Trial(*row) for block in read_action_members(log, action) for row in block)


def _hash_trials(trials: Sequence[Trial]) -> str:
    return hashlib.blake2b(json.dumps(trials).encode(), digest_size=16).hexdigest()


def _without_known(trials: Sequence[Trial], known: Sequence[Trial]) -> list[Trial] | None:
    """Trials without others that are among them in the same order; None where these are not."""
    rest, position = list[Trial](), 0
    for trial in trials:
        if position < len(known) and trial == known[position]:
            position += 1
        else:
            rest.append(trial)
    return rest if position == len(known) else None


class _RowReader:
    """Reads the rows of a table of results.

    Args:
        log: The annotation log.
        sets: The set of each policy that is known; those that the rows state are added.
    """

    def __init__(self, log: AnnotationStore, sets: dict[str, PolicySet]) -> None:
        self.sets, self.bad_rows, self.bad = sets, 0, list[str]()
        self._log, self._read_sets = log, dict[str, PolicySet | AresError]()

    def read(self, path: str | Path) -> Iterator[Trial]:
        """The trials of a file; what is wrong with the other rows is counted. Raises SourceError."""
        for number, cells in read_table(expanded_path(str(path)), _COLUMNS):
            try:
                if isinstance(cells, SourceError):
                    raise cells
                row = _ResultRow.model_validate({name: cell for name, cell in cells.items() if cell != ""})
                if row.set:
                    self._keep_set(row.policy, row.set)
            except ValidationError as error:
                name = str(next(iter(error.errors()[0]["loc"]), ""))
                shown = f"{name} is {cells.get(name)!r}; " if isinstance(cells, dict) and name else ""
                self._count_bad(number, f"{shown}{first_fault(error)}")
            except AresError as error:
                self._count_bad(number, str(error))
            else:
                yield row.trial

    def _count_bad(self, number: int, fault: str) -> None:
        self.bad_rows += 1
        if len(self.bad) < _NAMED_ROWS:
            self.bad.append(visible(shorten(f"line {number}: {fault}")))

    def _keep_set(self, policy: str, text: str) -> None:
        """Note the set of a policy. Raises RequestError where there is no such set, or the policy has another."""
        if text not in self._read_sets:
            try:
                self._read_sets[text] = _find_policy_set(self._log, text)
            except AresError as error:
                self._read_sets[text] = error
        read = self._read_sets[text]
        if isinstance(read, AresError):
            raise read
        known = self.sets.setdefault(policy, read)
        if known.ids_hash != read.ids_hash:
            raise RequestError(
                f"the policy {policy!r} was trained on {known.label}",
                f"got {read.label}; a policy of another set needs another name",
            )


def _find_policy_set(log: AnnotationStore, text: str) -> PolicySet:
    """The set of a label, or of the manifest, card or lock at a path, or in the folder of an export there.

    Raises RequestError where there is none.
    """
    path = Path(expanded_path(text))
    path = path / "manifest.json" if path.is_dir() else path
    if path.suffix != ".json":
        selection = Sets(log)[text]
        return PolicySet(selection.label, selection.ids_hash)
    try:
        document = json.loads(path.read_bytes(), **STRICT_JSON)
        header = document.get("set", document)
        return PolicySet(f"{header['name']}@{int(header['version'])}", str(header["ids_hash"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RequestError("no set is stated there", f"{path}: {error!r}; give NAME@VERSION") from None
