"""Cards of the episode grid as plain data, and the URLs of the media of an episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast
from urllib.parse import quote, urlencode

from ares.annotation import Producer
from ares.console import count_of
from ares.episode import Camera, Episode, Json, format_duration
from ares.media import stamp_mismatch
from ares.rubric import REFUTED_COLUMN
from ares.search import Hit
from ares.store import CONFLICT, DISAGREEMENT, TAGS, declared_columns
from ares.workspace import describe_grade
from ares_app.dashboard.column_words import (
    code_words,
    format_column_label,
    value_line,
)

_CAPTION_QUESTION = "Is the caption true of the episode?"
_REFUTED_QUESTION = " The judge accepted false captions that were put to it; the page Quality says which."


def build_cards(
    episodes: Sequence[Episode],
    captions: Mapping[str, Mapping[str, Any]],
    hits: Mapping[str, Hit],
    params: Mapping[str, Sequence[str]],
    first: int = 0,
    is_scored: bool = False,
) -> list[Json]:
    """Return cards for the grid.

    Args:
        episodes: Episodes in the order shown.
        captions: Columns of `cached_reads.read_captions`, by episode id.
        hits: Hits of a search, by episode id; poster and preview start at the hit's second.
        params: Query parameters of the view, added to every link.
        first: Position of the first card in the whole list.
        is_scored: Whether the scores of the hits are from 0 to 1, and so shown.
    """
    return [
        _card_data(
            episode,
            captions.get(episode.episode_id, {}),
            hits.get(episode.episode_id),
            params,
            first + number,
            is_scored,
        )
        for number, episode in enumerate(episodes)
    ]


def add_value_lines(
    cards: Sequence[Json],
    values: Mapping[str, Mapping[str, Any]],
    column: str,
    producers: Mapping[str, Producer],
) -> None:
    """Give cards the value that they are ordered by, with its name and unit.

    Args:
        cards: Cards of `build_cards`.
        values: The column, by episode id.
        column: Its name.
        producers: Producers by id, which declare the units.
    """
    units = {declared.name: declared.unit for declared in declared_columns(producers.values())}
    for card in cards:
        assert isinstance(card, dict)
        value = values.get(str(card["id"]), {}).get(column)
        card["value"] = value_line(column, value, units.get(column, ""), producers)


def move_shared_facts(cards: Sequence[Json]) -> list[str]:
    """Take what holds for all cards from them, and return it."""
    own = [cast("dict[str, Any]", card) for card in cards]
    facts = [card["facts"] for card in own]
    shared = (
        [str(fact) for fact in facts[0] if all(fact in other for other in facts)] if len(facts) > 1 else []
    )
    for card in own:
        card["facts"] = [fact for fact in card["facts"] if fact not in shared]
    return shared


def format_grade_label(values: Mapping[str, Any]) -> str:
    """Return the name of the grade; "ungraded" and "no_caption" where there is no grade yet."""
    if values.get("grade"):
        return str(values["grade"])
    return "ungraded" if values.get("caption") else "no_caption"


# Tone of the badge of a grade.
_TONES = {"acceptable": "good", "not_acceptable": "bad", "unsure": "open", "error": "open"}
_OUTCOMES = {"success": "good", "failure": "bad", "partial": "open", "aborted": "open"}


def list_notices(values: Mapping[str, Any]) -> list[Json]:
    """Return what an episode is in doubt about, as badges that say the question.

    Args:
        values: Columns of `cached_reads.read_captions`.
    """
    badges: list[Json] = []
    if values.get(CONFLICT):
        badges.append(_make_badge("bad", str(values[CONFLICT]), "Do all agree whether it succeeded?"))
    if differing := ", ".join(format_column_label(name) for name in values.get(DISAGREEMENT) or ()):
        badges.append(_make_badge("open", f"producers differ: {differing}", "Do all producers say the same?"))
    return badges


def _make_badge(tone: str, text: str, tip: str) -> dict[str, Json]:
    return {"tone": tone, "text": text, "tip": tip}


def make_grade_badge(values: Mapping[str, Any]) -> dict[str, Json]:
    """Return the badge of the grade of the caption: what it is, and whether it counts."""
    grade = format_grade_label(values)
    words = describe_grade(grade, is_refuted=values.get(REFUTED_COLUMN) is True)
    if words != code_words(grade):
        return {"tone": "open", "text": words, "tip": _CAPTION_QUESTION + _REFUTED_QUESTION}
    return {"tone": _TONES.get(grade, "none"), "text": words, "tip": _CAPTION_QUESTION}


def format_outcome_label(episode: Episode, values: Mapping[str, Any]) -> str:
    """Return how an episode ended in one word: success, failure, partial or aborted; "" where nobody says.

    Args:
        episode: The episode.
        values: Columns of `cached_reads.read_captions`.
    """
    return str(values.get("outcome") or {True: "success", False: "failure", None: ""}[episode.success])


def lost_reason(camera: Camera) -> str:
    """Return that the file of a camera is gone or another one, and what to do; "" where it can be shown.

    A file that is not on this machine is not looked at.
    """
    if "://" in camera.media.uri:
        return ""
    error = stamp_mismatch(camera.media.uri, camera.media.stamp)
    return str(error) if error else ""


def _card_data(
    episode: Episode,
    values: Mapping[str, Any],
    hit: Hit | None,
    params: Mapping[str, Sequence[str]],
    position: int,
    is_scored: bool,
) -> dict[str, Json]:
    # The camera of the hit, else the first one without a flag.
    hit_cameras = [camera for camera in episode.cameras if hit and camera.name == hit.camera]
    reasons = {camera.name: lost_reason(camera) for camera in episode.cameras}
    shown = [camera for camera in [*hit_cameras, *episode.good_cameras] if not reasons[camera.name]]
    camera = next(iter(shown), None)
    outcome = format_outcome_label(episode, values)
    says = values.get("outcome_source") or episode.success_source
    badges = list_notices(values)
    badges += [_make_badge("tag", str(tag), "Which tags did people give?") for tag in values.get(TAGS) or ()]
    good = sum(not camera.flags for camera in episode.cameras)
    # A hit without a camera matched by its text, which belongs to no moment.
    second = hit.seconds if hit and hit.camera else None
    query = urlencode(
        make_episode_page_params(params, episode.episode_id, position, second or 0.0), doseq=True
    )
    return {
        "id": episode.episode_id,
        "at": position,
        "title": episode.instruction or episode.key,
        "caption": values.get("caption") or "",
        "instruction": episode.instruction,
        "outcome": _make_badge(
            _OUTCOMES[outcome], outcome, f"How did it end{f', by {says}' if says else ''}?"
        )
        if outcome
        else None,
        "grade": make_grade_badge(values),
        "badges": badges,
        "facts": [
            episode.dataset,
            count_of(good, "camera"),
            f"{episode.rate_hz:g} Hz{' (assumed)' if episode.rate_source == 'assumed' else ''}",
        ],
        "value": "",
        "lost": next(filter(None, reasons.values()), ""),
        "length": format_duration(episode.duration_seconds),
        "score": f"{hit.score:.2f}" if hit and is_scored and hit.score is not None else "",
        "moment": "" if second is None else f"{second:.1f} s",
        "seconds": second or 0.0,
        "poster": make_poster_url(episode, camera.name, second) if camera else "",
        "video": make_video_url(episode, camera.name) if camera else "",
        "href": f"episode?{query}",
    }


def make_episode_page_params(
    params: Mapping[str, Sequence[str]], episode_id: str, position: int | None, second: float
) -> dict[str, list[str]]:
    """Return the query parameters of an episode's page, with those of the list that it is opened from."""
    query = {name: list(texts) for name, texts in params.items()}
    query["episode"] = [episode_id]
    if position is not None:
        query["at"] = [str(position)]
    if second:
        query["t"] = [f"{second:.2f}"]
    return query


def make_video_url(episode: Episode, camera: str) -> str:
    """Return the URL of the playable video of one camera, which `ares_app.server.routes` answers."""
    return f"/api/media/{episode.episode_id}/{quote(camera, safe='')}.mp4?v={episode.content_hash[:8]}"


def make_poster_url(episode: Episode, camera: str, second: float | None = None, width: int = 384) -> str:
    """Return the URL of an image at a second of the episode; None is its middle."""
    time = episode.duration_seconds / 2 if second is None else second
    query = urlencode({"t": f"{time:.3f}", "width": width, "v": episode.content_hash[:8]})
    return f"/api/thumb/{episode.episode_id}/{quote(camera, safe='')}.jpg?{query}"
