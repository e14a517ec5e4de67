"""Cards: what the grid shows of an episode, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from app.dashboard.routes import poster_url, video_url
from ares.episode import Camera, Episode, Json
from ares.search.query import Hit


def cards(
    episodes: Sequence[Episode],
    values: Mapping[str, Mapping[str, Any]],
    hits: Mapping[str, Hit],
    params: Mapping[str, Sequence[str]],
    first: int = 0,
) -> list[Json]:
    """Cards for the grid.

    Args:
        episodes: In the order shown.
        values: What annotators say, by episode.
        hits: The moment found, by episode; its poster and its start.
        params: The view's query parameters, kept in every link.
        first: Place of the first card in the whole list.
    """
    return [
        _card(one, values.get(one.episode_id, {}), hits.get(one.episode_id), params, first + number)
        for number, one in enumerate(episodes)
    ]


def grade_of(values: Mapping[str, Any]) -> str:
    """The grade's name for the badge; "ungraded" and "no_caption" say that there is none yet."""
    if values.get("grade"):
        return str(values["grade"])
    return "ungraded" if values.get("caption") else "no_caption"


def success_of(episode: Episode) -> str:
    """The outcome in a word, "" when the source has none."""
    return {True: "success", False: "failure", None: ""}[episode.success]


def facts(episode: Episode) -> list[str]:
    """Dataset, length, rate and cameras of an episode, for one line."""
    good = sum(not camera.flags for camera in episode.cameras)
    cameras = f"{good} camera{'' if good == 1 else 's'}"
    return [episode.dataset, cameras, f"{episode.rate_hz:g} Hz"]


def _card(
    episode: Episode,
    values: Mapping[str, Any],
    hit: Hit | None,
    params: Mapping[str, Sequence[str]],
    at: int,
) -> dict[str, Json]:
    camera = _camera(episode, hit)
    # A hit without a camera matched by words alone: it says nothing about a moment.
    second = hit.seconds if hit and hit.camera else None
    return {
        "id": episode.episode_id,
        "at": at,
        "title": episode.instruction or episode.key,
        "caption": values.get("caption") or "",
        "grade": grade_of(values),
        "success": success_of(episode),
        "facts": list(facts(episode)),
        "assumed": episode.rate_source == "assumed",
        "length": f"{episode.duration_seconds:.1f} s",
        "moment": "" if second is None else f"{second:.1f} s",
        "seconds": second or 0.0,
        "poster": poster_url(episode, camera.name, second) if camera else "",
        "video": video_url(episode, camera.name) if camera else "",
        "href": "episode?"
        + urlencode(episode_params(params, episode.episode_id, at, second or 0.0), doseq=True),
    }


def episode_params(
    params: Mapping[str, Sequence[str]], episode_id: str, at: int | None, second: float
) -> dict[str, list[str]]:
    """Query parameters of an episode's page that remember the list it was opened from."""
    kept = {name: list(texts) for name, texts in params.items()}
    kept["episode"] = [episode_id]
    if at is not None:
        kept["at"] = [str(at)]
    if second:
        kept["t"] = [f"{second:.2f}"]
    return kept


def _camera(episode: Episode, hit: Hit | None) -> Camera | None:
    named = [camera for camera in episode.cameras if hit and camera.name == hit.camera]
    return next(iter([*named, *episode.good_cameras]), None)
