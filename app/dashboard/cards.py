"""Cards of the episode grid as plain data, and the URLs of the media of an episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from ares.episode import Camera, Episode, Json
from ares.rubric import TRUST_COLUMN
from ares.search import Hit
from ares.store import CONFLICT, DISAGREEMENT

# Ending of the columns that say that a value is by an older maker.
STALE = "_stale"
# What people's answers or the controls of a judge say of it; nothing is said of a judge that is trusted.
_TRUST_NOTICES = {
    "certified": {"tone": "good", "text": "certified by people"},
    "unproven": {"tone": "open", "text": "judge unproven"},
    "untrusted": {"tone": "bad", "text": "judge untrusted"},
}


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


def format_grade_label(values: Mapping[str, Any]) -> str:
    """Return the name of the grade; "ungraded" and "no_caption" where there is no grade yet."""
    if values.get("grade"):
        return str(values["grade"])
    return "ungraded" if values.get("caption") else "no_caption"


def list_column_notices(values: Mapping[str, Any]) -> list[dict[str, str]]:
    """What a reader must know of the columns of an episode: contradictions, values of older makers, disagreement.

    Args:
        values: The columns `conflict`, `disagreement`, `grade_trust` and those that end in `_stale`.

    Returns:
        Texts with their tone: "good", "bad" or "open".
    """
    stale = [name.removesuffix(STALE) for name, value in values.items() if name.endswith(STALE) and value]
    differing, trust = ", ".join(values.get(DISAGREEMENT) or ()), str(values.get(TRUST_COLUMN))
    return [
        *([{"tone": "bad", "text": str(values[CONFLICT])}] if values.get(CONFLICT) else []),
        *({"tone": "open", "text": f"{name} by an older maker"} for name in stale),
        *([{"tone": "open", "text": f"makers differ: {differing}"}] if differing else []),
        *([_TRUST_NOTICES[trust]] if trust in _TRUST_NOTICES else []),
    ]


def format_outcome_label(episode: Episode) -> str:
    """Return "success" or "failure", or "" when the source has no outcome."""
    return {True: "success", False: "failure", None: ""}[episode.success]


def lost_reason(camera: Camera) -> str:
    """Return that the file of a camera is gone, and what to do; "" where it is there, or not on this machine."""
    uri = camera.media.uri
    if "://" in uri or Path(uri).exists():
        return ""
    return f"file is missing: {uri}; put it back, or tell where it is now: ares doctor --relocate OLD=NEW"


def list_card_facts(episode: Episode) -> list[str]:
    """Return dataset, number of cameras and rate of an episode, for one line."""
    good = sum(not camera.flags for camera in episode.cameras)
    cameras = f"{good} camera{'' if good == 1 else 's'}"
    return [episode.dataset, cameras, f"{episode.rate_hz:g} Hz"]


def _card_data(
    episode: Episode,
    values: Mapping[str, Any],
    hit: Hit | None,
    params: Mapping[str, Sequence[str]],
    position: int,
    is_scored: bool,
) -> dict[str, Json]:
    camera = _poster_camera(episode, hit)
    if camera and lost_reason(camera):
        camera = None
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
        "grade": format_grade_label(values),
        "success": format_outcome_label(episode),
        "tags": list[Json](values.get("tags") or ()),
        "notices": list[Json](list_column_notices(values)),
        "facts": list(list_card_facts(episode)),
        "assumed": episode.rate_source == "assumed",
        "length": f"{episode.duration_seconds:.1f} s",
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


def _poster_camera(episode: Episode, hit: Hit | None) -> Camera | None:
    """The camera of the hit, else the first one without a flag, else None."""
    hit_cameras = [camera for camera in episode.cameras if hit and camera.name == hit.camera]
    return next(iter([*hit_cameras, *episode.good_cameras]), None)


def make_video_url(episode: Episode, camera: str) -> str:
    """Return the URL of the playable video of one camera, which `app.server.routes` answers."""
    return f"/api/media/{episode.episode_id}/{quote(camera, safe='')}.mp4?v={episode.content_hash[:8]}"


def make_poster_url(episode: Episode, camera: str, second: float | None = None, width: int = 384) -> str:
    """Return the URL of an image at a second of the episode; None is its middle."""
    time = episode.duration_seconds / 2 if second is None else second
    query = urlencode({"t": f"{time:.3f}", "width": width, "v": episode.content_hash[:8]})
    return f"/api/thumb/{episode.episode_id}/{quote(camera, safe='')}.jpg?{query}"
