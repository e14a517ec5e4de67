"""Rulings of a grade, grouped by what they rest on, so that the page says it once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ares.episode import Json

# Who ruled, observation and seconds.
_Basis = tuple[str, str, tuple[float, ...]]

_SOURCES = {
    "hard": "checked by code",
    "probe": "chosen from the frames before the caption was read",
    "observation": "seen before the caption was read, and compared with it",
    "claim": "asked about the caption, with the frames",
    "panel": "by the votes of several judges",
    "stored": "decided by another annotation of the episode",
    "person": "said by a person",
}


def group_rulings(rulings: Sequence[Mapping[str, Any]]) -> list[Json]:
    """Groups of rulings, in the order of their first members; those of code come last.

    Rulings of one source with the same observation from the same frames form a group, which names both. The others of a
    source form a group in which each has its own. A reason that several rulings of a group share is said with the
    group, after their verdict.

    Args:
        rulings: As stored, see `ares.rubric.Ruling.to_json`.

    Returns:
        Of each group "source", "observed", "seconds", "reasons" and "rulings"; of each ruling criterion, category,
        verdict, what is its own, and the votes of a panel whose judges differ.
    """
    sizes = Counter(_basis(ruling) for ruling in rulings)
    groups: dict[_Basis, list[Mapping[str, Any]]] = {}
    for ruling in rulings:
        basis = _basis(ruling)
        groups.setdefault(basis if sizes[basis] > 1 else (basis[0], "", ()), []).append(ruling)
    code_last = sorted(groups.items(), key=lambda item: item[0][0] == "hard")
    return [_group(basis, members) for basis, members in code_last]


def _basis(ruling: Mapping[str, Any]) -> _Basis:
    seconds = tuple(float(second) for second in ruling.get("evidence") or ())
    return str(ruling.get("source") or ""), str(ruling.get("observed") or ""), seconds


def _group(basis: _Basis, rulings: Sequence[Mapping[str, Any]]) -> Json:
    source, observed, seconds = basis
    counts = Counter(_verdict_and_reason(ruling) for ruling in rulings)
    shared = [pair for pair, count in counts.items() if count > 1 and pair[1]]
    return {
        "source": _SOURCES.get(source, source),
        "observed": observed,
        "seconds": list[Json](seconds),
        "reasons": [f"{verdict}: {reason}" for verdict, reason in shared],
        "rulings": [_ruling(ruling, basis, shared) for ruling in rulings],
    }


def _verdict_and_reason(ruling: Mapping[str, Any]) -> tuple[str, str]:
    """The verdict, and its reason with why the claim was asked about at all."""
    reasons = [str(ruling.get(key) or "") for key in ("contested", "reason")]
    return str(ruling.get("verdict") or ""), "; ".join(reason for reason in reasons if reason)


def _ruling(ruling: Mapping[str, Any], basis: _Basis, shared: Sequence[tuple[str, str]]) -> Json:
    _, observed, seconds = _basis(ruling)
    verdict, reason = _verdict_and_reason(ruling)
    return {
        "criterion": str(ruling.get("criterion") or ""),
        "category": str(ruling.get("category") or ""),
        "verdict": verdict,
        "observed": "" if observed == basis[1] else observed,
        "reason": "" if (verdict, reason) in shared else reason,
        "seconds": [] if seconds == basis[2] else list[Json](seconds),
        "votes": _differing_votes(ruling),
    }


def _differing_votes(ruling: Mapping[str, Any]) -> list[Json]:
    """The votes of a panel that is not of one mind, of each judge its verdict and what it rests on."""
    votes = ruling.get("votes") or []
    if len({_verdict_and_reason(vote)[0] for vote in votes}) < 2:
        return []
    return [
        {
            "judge": str(vote.get("judge") or ""),
            "verdict": _verdict_and_reason(vote)[0],
            "observed": _basis(vote)[1],
            "reason": _verdict_and_reason(vote)[1],
            "seconds": list[Json](_basis(vote)[2]),
        }
        for vote in votes
    ]
