"""Episode: every camera and signal on one clock, and everything that was said about the episode."""

from __future__ import annotations

import json
from typing import Any

import streamlit as st

from app.dashboard import facts, handles, pages
from app.dashboard.cards import cards, episode_params, grade_of, success_of
from app.dashboard.charts import signals
from app.dashboard.components.grid import grid
from app.dashboard.components.player import player
from app.dashboard.components.rulings import pairs, rulings
from app.dashboard.results import neighbour
from app.dashboard.routes import poster_url, video_url
from app.dashboard.state import View, from_params, to_params
from app.dashboard.words import plain
from ares.episode import Episode, Json
from ares.errors import AresError

_LIKE = 6


def render() -> None:
    """Draw the episode of the URL."""
    view = from_params({name: st.query_params.get_all(name) for name in st.query_params})
    episode_id = st.query_params.get("episode", "")
    if not episode_id:
        st.info(
            "Open an episode from Browse, or give one in the address: ?episode=ID", icon=":material/info:"
        )
        return
    episode = handles.workspace().episode(episode_id)
    said = facts.about(handles.workspace(), episode)
    _head(view, episode)
    data = _player_data(episode, said.marks)
    player(
        data,
        key=f"episode.player.{episode_id}",
        moved=lambda step: _move(view, step),
        framed=lambda frame: pages.go("browse", {"image": [f"{episode_id}/{frame}"]}),
    )
    left, right = st.columns([3, 2], gap="large")
    with left:
        _captions(said)
    with right:
        _identity(episode)
    _annotations(said)
    _similar(episode)


def _head(view: View, episode: Episode) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if st.button("Results", icon=":material/arrow_back:", key="episode.back"):
            pages.go("browse", to_params(view))
        for text, icon, step in (("Previous", "chevron_left", -1), ("Next", "chevron_right", 1)):
            there = _place() is not None and neighbour(view, _place() or 0, step) is not None
            st.button(
                text, icon=f":material/{icon}:", key=f"episode.{text}", disabled=not there,
                on_click=_move, args=(view, step),
            )  # fmt: skip
        st.markdown(f"#### {plain(episode.instruction or episode.key)}", width="content")
        values = handles.rows([episode.episode_id]).get(episode.episode_id, {})
        grade = grade_of(values)
        st.badge(_GRADES.get(grade, (grade, "gray"))[0], color=_GRADES.get(grade, ("", "gray"))[1])  # type: ignore[arg-type]
        outcome = success_of(episode)
        if outcome:
            st.badge(outcome, color="green" if outcome == "success" else "red")


_GRADES = {
    "acceptable": ("caption acceptable", "green"),
    "not_acceptable": ("caption not acceptable", "red"),
    "unsure": ("caption unsure", "orange"),
    "error": ("grading failed", "orange"),
    "ungraded": ("caption ungraded", "gray"),
    "no_caption": ("no caption", "gray"),
}


def _place() -> int | None:
    text = st.query_params.get("at", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _move(view: View, step: int) -> None:
    at = _place()
    found = None if at is None else neighbour(view, at, step)
    if found is None or at is None:
        st.toast("There is no further episode in this list.")
        return
    episode_id, second = found
    st.query_params.from_dict(episode_params(to_params(view), episode_id, at + step, second or 0.0))


def _player_data(episode: Episode, marks: list[Json]) -> dict[str, Json]:
    try:
        start = min(max(float(st.query_params.get("t", "0")), 0.0), episode.duration_seconds)
    except ValueError:
        start = 0.0
    cameras: list[Json] = [
        {
            "name": camera.name,
            "about": f"{camera.role} · {camera.width}×{camera.height} · {camera.codec}",
            "video": video_url(episode, camera.name),
            "poster": poster_url(episode, camera.name, start, 640),
            "flags": list(camera.flags),
        }
        for camera in episode.cameras
    ]
    return {
        "episode": episode.episode_id,
        "duration": episode.duration_seconds,
        "rate": episode.rate_hz,
        "start": start if start == start else 0.0,
        "cameras": cameras,
        "signals": signals(handles.workspace().trajectory(episode.episode_id)),
        "marks": marks,
    }


def _captions(said: facts.Said) -> None:
    st.subheader("Caption and grade")
    if said.captions:
        rulings(said.captions, key="episode.rulings")
    else:
        st.caption("No caption yet: run `ares annotate caption grade`.")


def _identity(episode: Episode) -> None:
    st.subheader("Episode")
    assumed = (
        " (assumed: the source does not store it)"
        if episode.rate_source == "assumed"
        else f" ({episode.rate_source})"
    )
    rows = {
        "instruction": episode.instruction or "none",
        "others": "; ".join(episode.instructions[1:]),
        "dataset": " ".join(f"{episode.dataset} {episode.version} {episode.split}".split()),
        "record": episode.key,
        "robot": episode.robot or "unknown",
        "length": f"{episode.num_steps} steps, {episode.duration_seconds:.2f} s",
        "rate": f"{episode.rate_hz:g} Hz{assumed}",
        "outcome": f"{success_of(episode) or 'unknown'}"
        + (f" (from {episode.success_source})" if episode.success_source else ""),
        "source": episode.source,
        "content": episode.content_hash,
        "id": episode.episode_id,
    }
    pairs({name: value for name, value in rows.items() if value}, key="episode.identity")
    if episode.metadata:
        with st.expander("Metadata of the source"):
            st.json(dict(episode.metadata))


def _annotations(said: facts.Said) -> None:
    with st.expander(f"All {len(said.all)} annotations, with what made them", icon=":material/history:"):
        rows = [{**one, "value": json.dumps(one["value"], ensure_ascii=False)} for one in said.all]
        order = ["name", "value", "annotator", "model", "version", "camera", "created", "usd", "maker_id"]
        st.dataframe(rows, column_order=order, hide_index=True, key="episode.annotations")


def _similar(episode: Episode) -> None:
    st.subheader("Similar episodes")
    ways = {text: by for text, by in _WAYS.items() if _can(episode, by)}
    chosen = st.segmented_control(
        "Similar by", list(ways), default=next(iter(ways)), key="episode.ways", label_visibility="collapsed"
    )
    by = ways.get(str(chosen), "")
    try:
        hits = handles.ranked("", _LIKE, like=episode.episode_id, by=by)
    except AresError as error:
        st.caption(f"No similar episodes: {plain(error)}")
        return
    if not hits:
        st.caption("Nothing to compare yet: run `ares annotate embed motion`.")
        return
    ids = [hit.episode_id for hit in hits]
    found = handles.workspace().tables.episodes.get(ids)
    params: dict[str, Any] = {"like": [episode.episode_id], **({"by": [by]} if by else {})}
    by_id = {hit.episode_id: hit for hit in hits}
    opened = grid(cards(found, handles.rows(ids), by_id, params), key="episode.similar", compact=True)
    if opened:
        pages.go("episode", episode_params(params, *opened))


_WAYS = {
    "Look and words": "",
    "Look": "frames",
    "Words": "captions",
    "Meaning": "meaning",
    "State": "state",
    "Action": "action",
}


def _can(episode: Episode, by: str) -> bool:
    names = {"state": episode.state_names, "action": episode.action_names}
    return bool(names.get(by, True))
