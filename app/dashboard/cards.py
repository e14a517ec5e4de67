"""Cards of the episode grid as plain data, and the URLs of the media of an episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from app.dashboard.column_words import (
    code_words,
    format_column_label,
    format_value_for_people,
    value_line,
    value_words,
)
from ares.annotation import Producer
from ares.episode import Camera, Episode, Json, format_duration
from ares.rubric import REFUTED_COLUMN
from ares.search import Hit
from ares.store import CONFLICT, DISAGREEMENT, TAGS, declared_columns
from ares.workspace import describe_grade

_CAPTION_QUESTION = "Is the caption true of the episode?"
_REFUTED_QUESTION = " The judge accepted false captions that were put to it; the page Status says which."


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


def add_table_cells(
    cards: Sequence[Json],
    episodes: Sequence[Episode],
    values: Mapping[str, Mapping[str, Any]],
    producers: Mapping[str, Producer],
) -> None:
    """Give cards the record and the values of the columns of a table.

    Args:
        cards: Cards of `build_cards`, of the same episodes.
        episodes: The episodes.
        values: The columns of the table, by episode id.
        producers: Producers by id.
    """
    for card, episode in zip(cards, episodes, strict=True):
        assert isinstance(card, dict)
        row = dict(values.get(episode.episode_id, {}))
        if row.get("grade"):
            # As the badge says it, with whether it counts.
            row["grade"] = card["badges"][0]["text"].removeprefix("caption ")
        card["key"] = episode.key
        card["cells"] = [
            [format_column_label(name), "" if value is None else _cell_text(name, value, producers), name]
            for name, value in row.items()
            if name != "episode_id"
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


def _cell_text(column: str, value: Json, producers: Mapping[str, Producer]) -> str:
    return value_words(column, format_value_for_people(value), producers)


def format_grade_label(values: Mapping[str, Any]) -> str:
    """Return the name of the grade; "ungraded" and "no_caption" where there is no grade yet."""
    if values.get("grade"):
        return str(values["grade"])
    return "ungraded" if values.get("caption") else "no_caption"


# Tone of the badge of a grade.
_TONES = {"acceptable": "good", "not_acceptable": "bad", "unsure": "open", "error": "open"}
_OUTCOMES = {"success": "good", "failure": "bad"}


def list_badges(episode: Episode, values: Mapping[str, Any]) -> list[Json]:
    """Return the badges of an episode, each with the question that it answers.

    Args:
        episode: The episode.
        values: Columns of `cached_reads.read_captions`.
    """
    badges, outcome = list[tuple[str, str, str]](), format_outcome_label(episode)
    if outcome:
        source = f", by {episode.success_source}" if episode.success_source else ""
        badges.append((_OUTCOMES[outcome], outcome, f"Did the episode succeed{source}?"))
    if values.get(CONFLICT):
        badges.append(("bad", str(values[CONFLICT]), "Do all agree whether it succeeded?"))
    if differing := ", ".join(format_column_label(name) for name in values.get(DISAGREEMENT) or ()):
        badges.append(("open", f"producers differ: {differing}", "Do all producers say the same?"))
    badges += [("tag", str(tag), "Which tags did people give?") for tag in values.get(TAGS) or ()]
    graded = make_grade_badge(values)
    if format_grade_label(values) != "no_caption":
        graded["text"] = f"caption {graded['text']}"
    rest: list[Json] = [{"tone": tone, "text": text, "tip": tip} for tone, text, tip in badges]
    return [graded, *rest]


def make_grade_badge(values: Mapping[str, Any]) -> dict[str, Json]:
    """Return the badge of the grade of the caption: what it is, and whether it counts."""
    grade = format_grade_label(values)
    words = describe_grade(grade, is_refuted=values.get(REFUTED_COLUMN) is True)
    if words != code_words(grade):
        return {"tone": "open", "text": words, "tip": _CAPTION_QUESTION + _REFUTED_QUESTION}
    return {"tone": _TONES.get(grade, "none"), "text": words, "tip": _CAPTION_QUESTION}


def format_outcome_label(episode: Episode) -> str:
    """Return "success" or "failure", or "" when the source has no outcome."""
    return {True: "success", False: "failure", None: ""}[episode.success]


def lost_reason(camera: Camera) -> str:
    """Return that the file of a camera is gone, and what to do; "" where it is there, or not on this machine."""
    uri = camera.media.uri
    if "://" in uri or Path(uri).exists():
        return ""
    return f"file is missing: {uri}; put it back, or tell where it is now: ares doctor --relocate OLD=NEW"


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
    camera = next(iter([*hit_cameras, *episode.good_cameras]), None)
    if camera and lost_reason(camera):
        camera = None
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
        "badges": list_badges(episode, values),
        "facts": [episode.dataset, f"{good} camera{'' if good == 1 else 's'}", f"{episode.rate_hz:g} Hz"],
        "value": "",
        "assumed": episode.rate_source == "assumed",
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
    """Return the URL of the playable video of one camera, which `app.server.routes` answers."""
    return f"/api/media/{episode.episode_id}/{quote(camera, safe='')}.mp4?v={episode.content_hash[:8]}"


def make_poster_url(episode: Episode, camera: str, second: float | None = None, width: int = 384) -> str:
    """Return the URL of an image at a second of the episode; None is its middle."""
    time = episode.duration_seconds / 2 if second is None else second
    query = urlencode({"t": f"{time:.3f}", "width": width, "v": episode.content_hash[:8]})
    return f"/api/thumb/{episode.episode_id}/{quote(camera, safe='')}.jpg?{query}"
