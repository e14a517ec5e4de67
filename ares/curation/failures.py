"""Failures that jobs have logged: listed, and accepted as known by actions of the log that can be taken back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, cast

from ares.episode import Json
from ares.errors import RequestError
from ares.jobs import ACCEPTED_FAILURES, FAILURES
from ares.settings import user_name
from ares.store import (
    Action,
    in_condition,
    new_members_key,
    read_action_members,
    read_history,
    record_action,
    write_action_members,
)

if TYPE_CHECKING:
    from ares.store import Stores


# Document: up to which action the accepted failures were noted.
_STATE, _APPLIED = "applied", "failure_actions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Work that has failed and was not done since.

    Attributes:
        key: Key in the failure log.
        work: "ingest", or the annotator.
        subject: What failed: an episode, a segment or an annotation.
        reason: Why, in a text that is the same for every such case.
        detail: The value and the location.
        created: ISO 8601 time in UTC, or "".
        is_accepted: Whether a person has accepted that it fails for this reason.
    """

    key: str
    work: str
    subject: str
    reason: str
    detail: str
    created: str
    is_accepted: bool

    @property
    def maker_id(self) -> str:
        """Producer of the annotator that failed; "" for an ingestion."""
        scope = self.key.removesuffix(f"/{self.subject}")
        return scope.removeprefix(self.work).removeprefix("/")

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON, without the key."""
        stated = asdict(self)
        del stated["key"]
        stated["accepted"] = stated.pop("is_accepted")
        return stated


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureSelection:
    """Which logged failures: those that fulfil every condition that is set.

    Attributes:
        work: Only of this annotator, or of "ingest"; "" for all.
        texts: Only those with one of these texts in their subject, reason or detail, whatever its case.
    """

    work: str = ""
    texts: Sequence[str] = ()

    def has(self, failure: Failure) -> bool:
        """Whether a failure has one of the texts; without any it has."""
        words = f"{failure.subject}\n{failure.reason}\n{failure.detail}".lower()
        return not self.texts or any(text.lower() in words for text in self.texts)

    def describe(self) -> dict[str, Json]:
        """The conditions that are set, for the log."""
        return {name: value for name, value in asdict(self).items() if value}


_ALL = FailureSelection()


def list_failures(stores: Stores, selection: FailureSelection = _ALL) -> Iterator[Failure]:
    """The logged failures, by work and subject."""
    prefix = f"{selection.work}/" if selection.work else ""
    accepted = dict(stores.annotations.find_documents(ACCEPTED_FAILURES))
    documents = stores.annotations.find_documents(FAILURES, prefix)
    failures = (_parse_failure(key, document, accepted.get(key)) for key, document in documents)
    yield from filter(selection.has, failures)


def _parse_failure(key: str, document: Json, accepted: Json) -> Failure:
    fields = cast("dict[str, Json]", document)
    return Failure(
        is_accepted=isinstance(accepted, dict) and accepted.get("reason") == fields.get("reason"),
        key=key,
        work=key.partition("/")[0],
        subject=key.rpartition("/")[2],
        reason=str(fields.get("reason", "")),
        detail=str(fields.get("detail", "")),
        created=str(fields.get("at", "")),
    )


def episodes_of_failures(stores: Stores, failures: Sequence[Failure]) -> dict[str, str]:
    """The episode of each subject, or the subject where it is no segment and no annotation. Raises StoreError."""
    subjects = [failure.subject for failure in failures]
    owners = {subject: subject for subject in subjects}
    columns = ["annotation_id", "segment_id", "episode_id"]
    for name in columns[:2]:
        rows = stores.tables.segments.scan(columns, in_condition(name, subjects))
        owners |= {row[name]: row["episode_id"] for row in rows.to_pylist()}
    return owners


def failures_of(stores: Stores, subjects: Sequence[str]) -> list[Failure]:
    """The logged failures of annotators about some subjects, by annotator; read by key, without a scan of the log.

    Args:
        stores: Stores of the workspace.
        subjects: Ids of an episode and of its segments and annotations.

    Raises:
        StoreError: The log cannot be read.
    """
    log = stores.annotations
    producers = sorted(log.producers().items(), key=lambda item: (item[1].annotator, item[0]))
    prefixes = [f"{producer.annotator}/{maker_id}/" for maker_id, producer in producers]
    # Of the producers of an episode with thousands of segments few have failed about anything.
    failed = [prefix for prefix in prefixes if next(log.find_documents(FAILURES, prefix), None)]
    keys = [prefix + subject for prefix in failed for subject in subjects]
    documents = ((key, log.get_document(FAILURES, key)) for key in keys)
    return [
        _parse_failure(key, value, log.get_document(ACCEPTED_FAILURES, key))
        for key, value in documents
        if value is not None
    ]


def accept_failures(stores: Stores, selection: FailureSelection, person: str = "") -> Action:
    """Accept logged failures as known: a run in which nothing else fails has not failed; `undo` takes it back.

    The next runs try what failed as before. It counts as new where it fails for another reason, or fails again after
    it was done.

    Raises:
        RequestError: No failure matches.
        StoreError: The log cannot be written.
    """
    key, matching = new_members_key(), list_failures(stores, selection)
    documents = (
        [failure.key, stores.annotations.get_document(FAILURES, failure.key)] for failure in matching
    )
    with stores.annotations.atomic():
        count = write_action_members(stores.annotations, key, (list[Json](pair) for pair in documents))
        if not count:
            raise RequestError("no failure matches", "`ares failures list` shows them")
        action = record_action(
            stores.annotations,
            "accept_failures",
            person.strip() or user_name(),
            count=count,
            members=key,
            details={"recipe": selection.describe()},
        )
        apply_acceptances(stores)
    return action


def apply_acceptances(stores: Stores) -> None:
    """Note which failures are accepted, and forget it of what was taken back.

    Failures are in the log itself and in no table: how far this has come is a document beside them. Repeating it after
    a crash changes nothing.
    """
    history = read_history(stores.annotations)
    applied = stores.annotations.get_document(_STATE, _APPLIED)
    start = applied if isinstance(applied, int) else 0
    new = [action for action in history.actions if action.number > start]
    if not new:
        return
    roots = {history.root(action).number: history.root(action) for action in new}
    for number in sorted(roots):
        if roots[number].kind == "accept_failures":
            _apply_acceptance(stores, roots[number], history.is_effective(roots[number]))
    stores.annotations.put_documents(_STATE, {_APPLIED: history.last})


def _apply_acceptance(stores: Stores, action: Action, is_effective: bool) -> None:
    """Note which failures are accepted, for which reason, or forget it."""
    for block in read_action_members(stores.annotations, action):
        documents = {
            str(pair[0]): {"reason": cast("dict[str, Json]", pair[1]).get("reason", "")} for pair in block
        }
        if is_effective:
            stores.annotations.put_documents(ACCEPTED_FAILURES, documents)
        else:
            stores.annotations.drop_documents(ACCEPTED_FAILURES, documents)
