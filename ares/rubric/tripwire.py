"""When false texts that a judge accepted refute it, and from which of its grades on.

A tripwire can refute a judge and says no more: smaller faults are for people to measure. It is a battery of 48 false
texts once a judge and dataset, and one control for every 25 captions afterwards. A judge that accepts one false text in
twenty is refuted by .0155 of the batteries, and by .004 of the controls of 2,000 captions; one that falls for .85 of a
kind by .994 of the batteries (exact binomial sums, in the tests).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from ares.console import count_of

if TYPE_CHECKING:
    from ares.episode import Json


# Name of the annotations that hold controls.
CONTROL = "control"
# Falsehoods of a battery: what is told of another episode, a wrong action, thing or place, what captioner and judge
# took for each other here, a caption of frames without content, and a falsehood with a note to the judge.
ControlKind = Literal["other_episode", "action", "object", "place", "look_alike", "no_content", "note"]
CONTROL_KINDS: tuple[ControlKind, ...] = get_args(ControlKind)
BATTERY: Mapping[ControlKind, int] = {**dict.fromkeys(CONTROL_KINDS, 6), "note": 12}
# Captions between two controls after the battery.
CAPTIONS_PER_CONTROL = 25
# Accepted ones that refute: of a kind of the battery, of its notes, of the last controls after it.
_MOST_OF_A_KIND, _MOST_NOTES = 2, 3
_LAST, _MOST_OF_LAST = 6, 3
# Grades before the first accepted control of those that refute, which do not count either.
_GRADES_BEFORE = 150
KIND_WORDS: Mapping[str, str] = {
    "other_episode": "captions of other episodes",
    "action": "wrong actions",
    "object": "wrong objects",
    "place": "wrong places",
    "look_alike": "look-alikes",
    "no_content": "captions of frames without content",
    "note": "false captions with a note to the judge",
}


class ControlGrading(NamedTuple):
    """A false text that a judge has graded.

    Attributes:
        kind: Its `ControlKind`.
        is_accepted: Whether the judge accepts it.
        is_of_battery: Whether it is of the battery, or one of the controls afterwards.
        time: When it was graded, in seconds since 1970.
    """

    kind: str
    is_accepted: bool
    is_of_battery: bool
    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tripwire:
    """What the controls of a judge on one dataset say.

    Attributes:
        kinds: Accepted ones and all, by kind.
        reason: Why the judge is refuted, or "".
        first_wrong: When it accepted the first of the controls that refute it, in seconds since 1970; None without.
        refuted: When it was refuted, in seconds since 1970; None where it is not.
        label: What has to stand beside all numbers of the judge, or "".
    """

    kinds: Mapping[str, tuple[int, int]]
    reason: str = ""
    first_wrong: float | None = None
    refuted: float | None = None
    label: str = ""


def read_controls(values: Iterable[Mapping[str, Any]]) -> list[ControlGrading]:
    """The controls of annotations of one judge on one dataset, the oldest first; failed ones say nothing."""
    rows = [
        ControlGrading(
            kind=str(row["kind"]),
            is_accepted=row["grade"] == "acceptable",
            is_of_battery=bool(row.get("battery")),
            time=float(value["time"]),
        )
        for value in values
        if "time" in value  # controls of earlier versions tested other things
        for row in value["gradings"]
        if row["grade"] != "error"
    ]
    return sorted(rows, key=lambda row: row.time)


def decide_tripwire(controls: Sequence[ControlGrading], label: str = "") -> Tripwire:
    """Whether the controls of a judge on one dataset refute it.

    Args:
        controls: All of them, the oldest first.
        label: What has to stand beside all numbers of the judge, or "".
    """
    by_kind = {kind: _count_accepted(row for row in controls if row.kind == kind) for kind in CONTROL_KINDS}
    refuting, reason = _find_refuting(controls)
    return Tripwire(
        kinds={kind: counts for kind, counts in by_kind.items() if counts[1]},
        reason=reason,
        first_wrong=min((row.time for row in refuting if row.is_accepted), default=None),
        refuted=max((row.time for row in refuting), default=None),
        label=label,
    )


def _find_refuting(controls: Sequence[ControlGrading]) -> tuple[Sequence[ControlGrading], str]:
    """The first controls that refute a judge, with the reason; none where nothing does."""
    battery = [row for row in controls if row.is_of_battery]
    for kind in CONTROL_KINDS:
        rows = [row for row in battery if row.kind == kind]
        accepted, total = _count_accepted(rows)
        # Two processes may both have tested a judge: then twice as many are allowed.
        times = max(1.0, total / BATTERY[kind])
        if accepted > times * (_MOST_NOTES if kind == "note" else _MOST_OF_A_KIND):
            return rows, f"accepts {accepted} of {total} {KIND_WORDS[kind]}"
    later = [row for row in controls if not row.is_of_battery]
    for end in range(1, len(later) + 1):
        last = later[max(0, end - _LAST) : end]
        accepted, total = _count_accepted(last)
        if accepted > _MOST_OF_LAST:
            return last, f"accepts {accepted} of the last {total} controls"
    return (), ""


def _count_accepted(rows: Iterable[ControlGrading]) -> tuple[int, int]:
    accepted = [row.is_accepted for row in rows]
    return sum(accepted), len(accepted)


def find_cutoff(grade_times: Sequence[float], first_wrong: float) -> float:
    """The time from which grades of a refuted judge do not count: 150 captions before the first wrong control.

    Args:
        grade_times: When each of its grades on the dataset was made, in seconds since 1970, in order.
        first_wrong: When it accepted the first of the controls that refute it, in seconds since 1970.
    """
    before = [time for time in grade_times if time < first_wrong]
    return max(0.0, before[-_GRADES_BEFORE]) if len(before) >= _GRADES_BEFORE else 0.0


def tripwire_to_json(tripwire: Tripwire, since: float | None) -> dict[str, Json]:
    """The document that is kept by producer and dataset.

    Args:
        tripwire: What the controls say.
        since: From when on grades do not count, in seconds since 1970; None where the judge is not refuted.
    """
    tested = sum(total for _, total in tripwire.kinds.values())
    state = "refuted" if tripwire.reason else "not refuted" if tested else "not tested"
    return {
        "state": state,
        "kinds": {
            kind: {"accepted": accepted, "total": total} for kind, (accepted, total) in tripwire.kinds.items()
        },
        "controls": tested,
        "refuted": "" if tripwire.refuted is None else _format_time(tripwire.refuted),
        "since": since,
        "reason": tripwire.reason,
        **({"label": tripwire.label} if tripwire.label else {}),
    }


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def describe_tripwire(document: Mapping[str, Any]) -> str:
    """One line for people about `tripwire_to_json`."""
    label = f"{document['label']}, " if document.get("label") else ""
    if document["state"] == "not tested":
        return f"{label}not tested yet: its first captions of a run test it"
    if document["state"] == "refuted":
        since = (
            f"those since {_format_time(document['since'])}" if document["since"] else "none of its grades"
        )
        counting = f"{since} do not count, earlier ones do" if document["since"] else f"{since} counts"
        on = f" on {document['refuted']}" if document["refuted"] else ""
        return f"{label}REFUTED{on}: {document['reason']}; {counting}"
    accepted = sum(counts["accepted"] for counts in document["kinds"].values())
    kinds = ", ".join(_describe_accepted(document["kinds"]))
    of_which = f" ({kinds})" if kinds else ""
    controls = count_of(document["controls"], "false caption")
    return f"{label}not refuted: accepts {accepted} of {controls}{of_which}; how many are true people measure"


def _describe_accepted(kinds: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    for kind, counts in kinds.items():
        if counts["accepted"]:
            yield f"{counts['accepted']} of {counts['total']} {KIND_WORDS.get(kind, kind)}"
