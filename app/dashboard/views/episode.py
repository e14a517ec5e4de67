"""Page "Episode": every camera and signal on one clock, and every annotation of the episode."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import streamlit as st

from ares.console import count_of
from ares.episode import Episode, Json, Trajectory, format_duration
from ares.errors import AresError, RequestError
from ares.reports import check_stored_episode
from ares.store import NOTES, TAGS, ids_filter
from ares_app.dashboard import cached_reads, navigation
from ares_app.dashboard.address import read_parameter, read_second, read_view
from ares_app.dashboard.annotation_rows import (
    EpisodeAnnotations,
    make_finding_lanes,
    read_annotations,
    read_segments,
)
from ares_app.dashboard.cards import (
    build_cards,
    format_grade_label,
    format_outcome_label,
    list_notices,
    make_episode_page_params,
    make_grade_badge,
)
from ares_app.dashboard.column_words import (
    VERDICTS,
    code_words,
    document_words,
    producer_words,
    time_words,
)
from ares_app.dashboard.components import (
    draw_grid,
    draw_pairs,
    draw_player,
    draw_table,
    load_component,
)
from ares_app.dashboard.failed_work import draw_episode_failures
from ares_app.dashboard.fields import draw_refusal, guard_field, show_value
from ares_app.dashboard.markdown_text import escape_markdown
from ares_app.dashboard.player_data import make_player_source, make_signal_plots
from ares_app.dashboard.results import Neighbourhood, check_view, find_best_second, find_neighbours
from ares_app.dashboard.selection_bar import (
    change_ticks,
    draw_selection_bar,
    read_login_name,
    read_person_name,
    read_ticked_ids,
    remember_person_name,
)
from ares_app.dashboard.timeline_ticks import find_likely_failure, make_timeline_ticks
from ares_app.dashboard.view_state import AddressError, ViewState, view_to_params

if TYPE_CHECKING:
    from ares.review import Answer
    from ares.store import Action

_MAX_SIMILAR = 8
# Ways to compare episodes: label, and the value of `--by`.
_WAYS = {
    "Look and words": "",
    "Look": "frames",
    "Words": "captions",
    "Meaning": "meaning",
    "State": "state",
    "Action": "action",
}
# What is answered beside the picture, with titles of the guidelines.
_GUIDED = {
    "success": "Outcome",
    "text": "Text",
    "criterion": "Criteria",
    "boundary": "Boundaries of segments",
}
# Tags with a key, and session keys: what was done here, and whether the user has said who that is.
_MOST_TAGS, _DONE, _NAMED = 9, "episode.done", "episode.named"


def render() -> None:
    """Draw the episode that the URL names."""
    view = read_view()
    check_view(view, cached_reads.filter_columns())
    episode_id = read_parameter("episode")
    if not episode_id:
        st.info(
            "No episode was opened yet. Open one from Browse, or give one in the address: ?episode=ID",
            icon=":material/info:",
        )
        return
    workspace = cached_reads.workspace()
    episode = cached_reads.limited(lambda: workspace.stores.tables.episodes.get_episode(episode_id))
    segments = cached_reads.limited(lambda: read_segments(workspace.stores, episode))
    annotations = cached_reads.limited(lambda: read_annotations(workspace.stores, episode, segments))
    trajectory = cached_reads.limited(lambda: workspace.stores.tables.trajectories.get(episode_id))
    ticks = cached_reads.limited(
        lambda: make_timeline_ticks(workspace.stores, episode, trajectory, segments, annotations.judged)
    )
    second = _requested_second(view, episode, ticks)
    # In a container: what stands above the player may be more or less, and the player keeps its place on the page.
    with st.container():
        _draw_headline(view, episode)
    data = {
        **make_player_source(episode, trajectory, second),
        "start": second,
        "signals": make_signal_plots(trajectory),
        "ticks": ticks,
        "segments": annotations.lanes,
    }
    draw_player(
        data,
        _judge_data(episode, annotations),
        key="episode.player",
        on_frame_search=lambda frame: navigation.open_page("browse", {"image": [frame]}),
        on_acts=guard_field("episode.player", _apply_acts),
    )
    draw_refusal("episode.player")
    findings = st.container()
    draw_episode_failures(episode.episode_id, annotations.subjects)
    _draw_similar(episode)
    _draw_identity(episode)
    _draw_annotations(episode, annotations)
    with findings:
        # The sample of a dataset takes a second the first time: all else is on the page before.
        _draw_findings(episode, trajectory)


def _draw_headline(view: ViewState, episode: Episode) -> None:
    columns = cached_reads.read_captions([episode.episode_id]).get(episode.episode_id, {})
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="episode_head"):
        st.button(
            "Results", icon=":material/arrow_back:", key="episode.back",
            on_click=navigation.open_page, args=("browse", view_to_params(view)),
        )  # fmt: skip
        load_component("headline")(data=_headline_data(view, episode, columns), key="episode.headline")
        with st.popover("More"):
            key = f"episode.select.{episode.episode_id}"
            show_value(key, episode.episode_id in read_ticked_ids())
            st.toggle("Select", key=key, on_change=_apply_toggle, args=(key, episode.episode_id))
            st.button(
                "Compare producers", key="episode.compare", help="What two producers say of this episode, side by side",
                on_click=navigation.open_page, args=("compare", {"a": [episode.episode_id]}),
            )  # fmt: skip
    if read_ticked_ids():
        draw_selection_bar(view, 0)


def _apply_toggle(key: str, episode_id: str) -> None:
    # By what it shows now: the click before may not have been drawn yet.
    change_ticks({episode_id: bool(st.session_state.get(key))})


def _headline_data(view: ViewState, episode: Episode, columns: Mapping[str, Any]) -> dict[str, Json]:
    """The texts, the badges, and the place in the list that the episode was opened from."""
    text = read_parameter("at")
    if text and not (text.isascii() and text.isdigit() and len(text) < 10):
        raise AddressError("at", "a place in a list cannot be read", f"got {text!r}; places count from 0")
    position = int(text) if text else None
    known = Neighbourhood() if position is None else find_neighbours(view, episode.episode_id, position)
    if position is not None and not known.is_listed:
        notice = f"This episode is not at place {position + 1:,} of the list that the address describes."
        st.caption(f":material/info: {notice}")
    return {
        "episode": episode.episode_id,
        "title": episode.instruction or episode.key,
        "badges": list_notices(columns),
        "at": known.position if known.is_listed else -1,
        "count": known.count,
        "before": [list(entry) for entry in known.before],
        "after": [list(entry) for entry in known.after],
        "begins": known.begins,
        "ends": known.ends,
    }


def _requested_second(view: ViewState, episode: Episode, ticks: Sequence[Json]) -> float:
    """The second of the address; without one that which a search matches best, where it likely failed, or the start."""
    second = read_second(episode.duration_seconds)
    if second is None:
        second = find_best_second(view, episode.episode_id)
    if second is None:
        second = find_likely_failure(ticks) if episode.success is False else 0.0
    return min(second, episode.duration_seconds)


def _judge_data(episode: Episode, annotations: EpisodeAnnotations) -> dict[str, Json]:
    """What the column beside the picture shows: outcome, text with its criteria, tags, and what can be undone."""
    from ares.review import shipped_guidelines, usual_guideline

    columns = cached_reads.read_captions([episode.episode_id]).get(episode.episode_id, {})
    settings = cached_reads.workspace().stores.settings
    judged, episode_tags = annotations.judged, columns.get(TAGS) or ()
    if judged is not None:
        # Rulings of people change the grade that the judge gave, and leave its reason.
        grade = format_grade_label(columns)
        why = judged["why"] if grade == judged["grade"] else ""
        judged = {**judged, "grade": grade, "badge": make_grade_badge(columns), "why": why}
    outcome, label = annotations.outcome, format_outcome_label(episode, columns)
    source = f"{label}, by the source" if label else "the source says none"
    done = st.session_state.get(_DONE) or ()
    guidelines = [f"{title}\n{shipped_guidelines()[name]}" for name, title in _GUIDED.items()]
    person, used = read_login_name() or str(st.session_state.get(_NAMED) or ""), []
    # After a reload the log knows what can be taken back; behind a password nobody is named before the first ruling.
    is_known = bool(person) or not cached_reads.page_limits().needs_login
    has_ruled = any(entry["kind"] == "person" for entry in annotations.annotations)
    last = _find_last_of_person(episode.episode_id) if is_known and has_ruled and not done else ""
    if TAGS in cached_reads.filter_columns():
        used = [str(tag) for tag, _ in cached_reads.read_facets("", TAGS)[0].counts][:_MOST_TAGS]
    return {
        "episode": episode.episode_id,
        "person": person,
        # Behind a password the user of the server is not the one who looks.
        "isAsked": cached_reads.page_limits().needs_login and not person,
        "ticked": episode.episode_id in read_ticked_ids(),
        "tags": [[tag, tag in episode_tags] for tag in dict.fromkeys([*episode_tags, *used])],
        "notes": list[Json](columns.get(NOTES) or ()),
        "outcome": {**outcome, "label": f"as {outcome['person']} says" if outcome.get("verdict") else source},
        "kinds": list[Json](settings.failure_kinds),
        "severities": list[Json](settings.failure_severities),
        "instruction": episode.instruction,
        "text": judged,
        "undo": done[-1].text if done else last,
        # That of the lab says all.
        "guideline": usual_guideline(settings, "") if settings.review_guideline else "\n\n".join(guidelines),
    }


class _Done(NamedTuple):
    """Something that was done on this page: what, and how it is taken back."""

    text: str
    undo: Callable[[], object]


def _apply_acts(acts: Sequence[Mapping[str, Any]]) -> None:
    """Do what was clicked beside the picture, in order; the first that cannot be done is said, and ends it."""
    done: list[_Done] = st.session_state.setdefault(_DONE, [])
    for act in acts:
        if act.get("person"):
            remember_person_name(str(act["person"]))
        st.session_state[_NAMED] = read_person_name()
        if act["act"] == "undo":
            undo = done.pop().undo if done else partial(_take_last_back, str(act["episode"]))
            undo()
        else:
            done.append(_ACTS[act["act"]](str(act["episode"]), act))


def _find_last_of_person(episode_id: str) -> str:
    """What the person ruled last on the episode, as the log has it; "" for nothing."""
    from ares.review import find_last_answer

    last = find_last_answer(cached_reads.workspace().stores, episode_id, read_person_name())
    return _describe_answer(last[1]) if last else ""


def _take_last_back(episode_id: str) -> None:
    """Take the last ruling of the person on the episode back, as `ares undo ID` does."""
    from ares.review import find_last_answer, withdraw_answer

    stores, person = cached_reads.workspace().stores, read_person_name()
    last = find_last_answer(stores, episode_id, person)
    if last:
        withdraw_answer(stores, last[0].annotation_id, person)


def _describe_answer(answer: Answer) -> str:
    if answer.question == "text":
        return "new text"
    if answer.question == "instruction" and answer.text:
        return "new instruction"
    # The outcome is said as it is, a criterion by whether it is met.
    about = "outcome" if answer.question == "success" else code_words(answer.question)
    return f"{about}: {VERDICTS.get(answer.verdict.upper(), answer.verdict)}"


def _apply_tick(episode_id: str, act: Mapping[str, Any]) -> _Done:
    is_on = bool(act["on"])
    change_ticks({episode_id: is_on})
    text = "tick" if is_on else "untick"
    return _Done(text, lambda: change_ticks({episode_id: not is_on}))


def _apply_tag(episode_id: str, act: Mapping[str, Any]) -> _Done:
    from ares.curation import add_tag, remove_tag

    tag, change = str(act["tag"]), add_tag if act["on"] else remove_tag
    return _change_episode(episode_id, change, tag, f"{'tag' if act['on'] else 'no tag'} {tag}")


def _apply_note(episode_id: str, act: Mapping[str, Any]) -> _Done:
    from ares.curation import add_note

    return _change_episode(episode_id, add_note, str(act["note"]), "note")


def _change_episode(episode_id: str, change: Callable[..., Action], text: str, done: str) -> _Done:
    from ares.curation import select_episodes, undo
    from ares.jobs import EpisodeSelection

    stores, person = cached_reads.workspace().stores, read_person_name()
    with select_episodes(stores, EpisodeSelection(ids=[episode_id])) as selected:
        action = change(stores, text, selected, person=person)
    return _Done(done, lambda: undo(stores, action.number, person=person))


def _apply_answer(episode_id: str, act: Mapping[str, Any]) -> _Done:
    from ares.review import Answer, give_answer, withdraw_answer

    stores, person = cached_reads.workspace().stores, read_person_name()
    answer = Answer(
        question=str(act["question"]),
        subject_id=str(act["subject_id"]),
        subject_kind=str(act["subject_kind"]),
        verdict=str(act.get("verdict") or ""),
        person=person,
        reason=str(act.get("reason") or ""),
        failure_kind=str(act.get("failure_kind") or ""),
        severity=str(act.get("severity") or ""),
        text=str(act.get("text") or ""),
        slots={str(name): str(value) for name, value in (act.get("slots") or {}).items()},
    )
    stored = give_answer(stores, answer)
    return _Done(_describe_answer(answer), lambda: withdraw_answer(stores, stored.annotation_id, person))


def _apply_spans(episode_id: str, act: Mapping[str, Any]) -> _Done:
    """Boundaries and texts of segments: all of their annotator are the person's from now on."""
    from ares.review import SegmentChange, correct_segments, withdraw_segments

    stores = cached_reads.workspace().stores
    changes = [
        SegmentChange(
            annotation_id=str(change["id"]),
            start_seconds=float(change["start"]),
            stop_seconds=float(change["stop"]),
            text=None if change.get("text") is None else str(change["text"]),
        )
        for change in act["changes"]
    ]
    by_id = {segment["annotation_id"]: segment for segment in _read_segment_ids(episode_id)}
    names = {by_id[change.annotation_id]["annotator"] for change in changes if change.annotation_id in by_id}
    if len(names) != 1:
        raise RequestError("the segments are not there any more", "somebody has changed them; look again")
    ids = {key for key, segment in by_id.items() if segment["annotator"] in names}
    log = stores.annotations.find_annotations([episode_id])
    shown = list({entry.annotation_id: entry for entry in log if entry.annotation_id in ids}.values())
    written = correct_segments(stores, shown, changes, read_person_name())
    stores.sync()

    def take_back() -> None:
        withdraw_segments(stores, written)
        stores.sync()

    return _Done("change of segments", take_back)


def _read_segment_ids(episode_id: str) -> list[dict[str, Any]]:
    table = cached_reads.workspace().stores.tables.segments
    rows: list[dict[str, Any]] = table.scan(
        ["annotation_id", "annotator"], ids_filter([episode_id])
    ).to_pylist()
    return rows


_ACTS: Mapping[str, Callable[[str, Mapping[str, Any]], _Done]] = {
    "tick": _apply_tick,
    "tag": _apply_tag,
    "note": _apply_note,
    "answer": _apply_answer,
    "spans": _apply_spans,
}


def _draw_findings(episode: Episode, trajectory: Trajectory) -> None:
    """Draw what the checks say of the episode; nothing where its dataset cannot be read in time."""
    try:
        typical = cached_reads.read_health(episode.dataset).typical
        findings = cached_reads.limited(lambda: check_stored_episode(episode, trajectory, typical))
    except AresError:
        return
    lanes = make_finding_lanes(findings, episode.duration_seconds)
    load_component("findings")(data={"episode": episode.episode_id, "lanes": lanes}, key="episode.findings")


_OUTCOMES: Mapping[object, str] = {True: "success", False: "failure", None: "unknown"}


def _draw_identity(episode: Episode) -> None:
    origin = (
        "assumed: the source does not store it"
        if episode.rate_source == "assumed"
        else str(episode.rate_source)
    )
    rows = {
        "instruction": episode.instruction or "none",
        "recorded instruction": str(episode.recorded.get("instruction", "")),
        "others": "; ".join(episode.instructions[1:]),
        "dataset": " ".join(f"{episode.dataset} {episode.version} {episode.split}".split()),
        "record": episode.key,
        "robot": episode.robot or "unknown",
        "length": f"{count_of(episode.num_steps, 'step')}, {format_duration(episode.duration_seconds)}",
        "rate": f"{episode.rate_hz:g} Hz ({origin})",
        "stamps": _describe_stamps(episode),
        "recorded outcome": _OUTCOMES.get(episode.recorded.get("success", ""), ""),
        "depth": "; ".join(episode.depth_texts),
        "source": episode.source,
        "hash of the content": episode.content_hash,
        "id": episode.episode_id,
    }
    with st.expander("What the source says", icon=":material/info:"):
        draw_pairs(rows)
        if episode.metadata:
            st.json(dict(episode.metadata), expanded=False)


def _describe_stamps(episode: Episode) -> str:
    """The measured rate beside the claimed one, its spread, and how far the clock is from an even one."""
    if episode.measured_rate_hz is None or episode.rate_spread is None:
        return ""
    claimed = f", {episode.claimed_rate_hz:g} Hz claimed" if episode.claimed_rate_hz else ""
    return (
        f"{episode.measured_rate_hz:.4g} Hz measured{claimed}, periods vary by {episode.rate_spread:.1%}, "
        f"up to {episode.clock_shift_seconds:.3f} s from an even clock"
    )


def _draw_annotations(episode: Episode, annotations: EpisodeAnnotations) -> None:
    count = annotations.count
    with st.expander(f"All {count_of(count, 'annotation')}, with what made them", icon=":material/history:"):
        rows = [
            {
                "annotation": code_words(str(document["name"])),
                "in filters": document["shown"],
                "says": "; ".join(
                    f"{label}: {text}" for label, text in _words_of(document, annotations).items()
                ),
                "made by": producer_words(annotations.producers, str(document["maker_id"])),
                "camera": document["camera"],
                "when (UTC)": time_words(str(document["created"])),
                "US dollars": document["usd"],
            }
            for document in annotations.annotations
        ]
        draw_table(rows, "episode.annotations")
        if len(rows) < count:
            st.caption(f"The first {len(rows):,} of {count:,}; all: `ares show {episode.episode_id} --json`")


def _words_of(document: Mapping[str, Json], annotations: EpisodeAnnotations) -> Mapping[str, str]:
    return document_words(cast("Mapping[str, Json]", document["value"]), annotations.producers)


def _draw_similar(episode: Episode) -> None:
    st.subheader("Similar episodes")
    signal_names = {"state": episode.state_names, "action": episode.action_names}
    ways = {label: by for label, by in _WAYS.items() if signal_names.get(by, True)}
    selected = st.segmented_control(
        "Similar by", list(ways), default=next(iter(ways)), key="episode.ways", label_visibility="collapsed"
    )
    by = ways.get(str(selected), "")
    try:
        hits = cached_reads.find_similar_episodes(episode.episode_id, by, _MAX_SIMILAR)
    except AresError as error:
        st.caption(f"No similar episodes: {escape_markdown(error)}")
        return
    if not hits:
        st.caption("Nothing to compare yet: run `ares annotate embed motion`.")
        navigation.draw_job_button("Embed and measure motion", "annotate", ("embed", "motion"), key="embed")
        return
    ids = [hit.episode_id for hit in hits]
    episodes = cached_reads.read_episodes(ids)
    params: dict[str, Any] = {"like": [episode.episode_id], **({"by": [by]} if by else {})}
    hits_by_id = {hit.episode_id: hit for hit in hits}
    cards = build_cards(episodes, cached_reads.read_captions(ids), hits_by_id, params)
    draw_grid(
        cards,
        "episode.similar",
        lambda *card: navigation.open_page("episode", make_episode_page_params(params, *card)),
        size="small",
    )
