"""The page says once what several rulings rest on, and of each ruling only what is its own."""

from __future__ import annotations

from typing import Any

from app.dashboard.annotation_rows import group_rulings
from app.dashboard.timeline_ticks import make_ruling_ticks

SAW = "push the green drawer closed"


def _ruling(criterion: str, verdict: str, source: str, **values: Any) -> dict[str, Any]:
    return {"criterion": criterion, "category": "essential", "verdict": verdict, "source": source, **values}


def _probe(criterion: str, verdict: str = "MET", reason: str = "what was seen fits the caption") -> Any:
    return _ruling(criterion, verdict, "probe", observed=SAW, evidence=[0.5, 1.5], reason=reason)


def test_what_several_rulings_rest_on_is_said_once() -> None:
    outcome = _ruling(
        "OUTCOME", "UNSURE", "probe", observed="failed to push", evidence=[5.0], reason="too close to call"
    )
    rulings = [
        _probe("VERB"),
        _probe("OBJECT"),
        outcome,
        _probe("COLOUR", "UNMET", "something else was seen"),
    ]
    groups: Any = group_rulings(rulings)
    seen, own = groups
    assert (seen["observed"], seen["seconds"]) == (SAW, [0.5, 1.5])
    assert seen["reasons"] == ["met: what was seen fits the caption"]
    members = seen["rulings"]
    assert [member["criterion"] for member in members] == ["VERB", "OBJECT", "COLOUR"]
    assert [(member["observed"], member["seconds"]) for member in members] == [("", [])] * 3
    assert [member["reason"] for member in members] == ["", "", "something else was seen"]
    alone = own["rulings"]
    assert (own["observed"], own["seconds"], own["reasons"]) == ("", [], [])
    assert (alone[0]["observed"], alone[0]["seconds"], alone[0]["reason"]) == (
        "failed to push", [5.0], "too close to call",
    )  # fmt: skip


def test_each_claim_keeps_its_own_observation_and_no_ruling_is_lost() -> None:
    claims = [
        _ruling(name, "MET", "claim", observed=f"saw {name}", evidence=[1.0], reason="judged by the frames")
        for name in ("VERB", "OBJECT")
    ]
    code = [_ruling(name, "NA", "hard", reason="caption does not say") for name in ("SOURCE", "MANNER")]
    groups: Any = group_rulings([*claims, *code, {"verdict": "ERROR"}])
    assert [group["source"] for group in groups] == [
        "asked about the caption, with the frames (an older judge)",
        "",
        "checked by code",
    ]
    assert [member["observed"] for member in groups[0]["rulings"]] == ["saw VERB", "saw OBJECT"]
    assert groups[0]["reasons"] == ["met: judged by the frames"]
    assert groups[2]["reasons"] == ["does not apply: caption does not say"]
    assert [member["reason"] for member in groups[2]["rulings"]] == ["", ""]
    assert groups[1]["rulings"][0]["verdict"] == "ERROR"


def test_the_votes_of_a_panel_are_shown_where_its_judges_differ() -> None:
    def panel(criterion: str, *verdicts: str) -> dict[str, Any]:
        votes = [_ruling(criterion, name, "claim", judge=name.lower(), evidence=[2.0]) for name in verdicts]
        return _ruling(criterion, verdicts[0], "panel", votes=votes, reason="votes")

    groups: Any = group_rulings([panel("VERB", "MET", "MET"), panel("OBJECT", "MET", "ERROR")])
    agreed, split = groups[0]["rulings"]
    assert agreed["votes"] == []
    assert [(vote["judge"], vote["verdict"], vote["seconds"]) for vote in split["votes"]] == [
        ("met", "MET", [2.0]),
        ("error", "ERROR", [2.0]),
    ]


def test_the_timeline_names_every_criterion_that_rests_on_a_second() -> None:
    groups = group_rulings([_probe("VERB"), _probe("OBJECT", "UNMET", "something else was seen")])
    caption = {"grades": [{"groups": groups}]}
    assert [(tick["seconds"], tick["label"]) for tick in make_ruling_ticks([caption], 8.0)] == [
        (second, "VERB MET, OBJECT UNMET") for second in (0.5, 1.5)
    ]


def test_what_was_seen_first_is_said_once_and_a_contested_claim_says_why_it_was_asked() -> None:
    seen = {"observed": "open the drawer", "evidence": [1.0], "reason": "the observation says the same"}
    agreed = [_ruling(name, "MET", "observation", **seen) for name in ("VERB", "OBJECT")]
    contested = {"contested": "not visible in the observation", "reason": "judged by the frames cited"}
    asked = _ruling(
        "OUTCOME", "UNMET", "claim", observed="it is shut", claimed="completed", evidence=[2.0], **contested
    )
    groups: Any = group_rulings([*agreed, asked])
    first, second = groups
    assert first["source"] == "seen before anything was known of the caption"
    assert (first["observed"], first["reasons"]) == (
        "open the drawer",
        ["met: the observation says the same"],
    )
    assert [ruling["reason"] for ruling in first["rulings"]] == ["", ""]
    (ruling,) = second["rulings"]
    assert ruling["reason"] == "not visible in the observation; judged by the frames cited"
    assert (ruling["claimed"], first["rulings"][0]["claimed"]) == ("completed", "")
