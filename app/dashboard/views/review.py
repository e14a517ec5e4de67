"""Page "Review": measures what is true, and asks one item of a queue at a time, answered by one key, blind."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from threading import Lock, Thread, Timer
from typing import TYPE_CHECKING, Any, NamedTuple

import streamlit as st

from app.dashboard import cached_reads, navigation
from app.dashboard.address import read_parameter, write_parameter
from app.dashboard.cards import make_poster_url, make_video_url
from app.dashboard.column_words import VERDICTS, code_words, time_words
from app.dashboard.components import draw_review, draw_table
from app.dashboard.fields import draw_refusal, entered_text, guard_field
from app.dashboard.markdown_text import escape_markdown
from app.dashboard.selection_bar import read_login_name
from app.dashboard.view_state import AddressError
from app.server import check_person_name
from ares.console import count_of
from ares.episode import Json
from ares.errors import AresError, RequestError
from ares.review import (
    LEASE_SECONDS,
    Queue,
    QueueItem,
    QueueProgress,
    QueueRequest,
    ReviewQueue,
    find_earlier_answer,
)
from ares.settings import user_name
from ares.workspace import open_measurement

if TYPE_CHECKING:
    from ares.episode import Episode
    from ares.review import Answer, MeasuredShare
    from ares.store import Stores
    from ares.workspace import AnswerRow


_USUAL_KEYS = (("y", "met", "yes"), ("n", "unmet", "no"), ("?", "unsure", "cannot tell"))
_SUCCESS_KEYS = (("y", "success", "success"), ("n", "failure", "failure"), ("?", "unsure", "cannot tell"))
_QUESTIONS = {
    "acceptable": "Is the text true?",
    "success": "Did the episode succeed?",
    "instruction": "Is this the instruction of the episode?",
}
_UNDO = "u"
# Cameras and frames of one item that are drawn, and answers in the list.
_MAX_CAMERAS, _MAX_FRAMES, _MAX_ANSWERS = 4, 3, 200
# The tables of a larger workspace follow after so many answers of a person; the log has each at once.
_FEW_EPISODES, _ANSWERS_PER_SYNC = 20_000, 20
# Measurements that are listed.
_MOST_MEASURED, _MEASURE = 20, "review.measure"
# Reasons that the person gave last, in this session.
_REASONS, _MOST_REASONS = "review.reasons", 8
_NEW_NAME, _NEW_QUESTION = "review.new.name", "review.new.question"
_NEW_SIZE, _NEW_WHERE = "review.new.size", "review.new.where"
# Episodes of the item and of the next ones, by id.
_EPISODES = "review.episodes"
_QUEUE, _PERSON, _ANSWERS = "review.queue", "review.person", "review.answers"
# The tables follow when nobody has answered for so long.
_PAUSE_SECONDS = 2.0
# And so long after an answer at the latest, while people go on.
_MOST_SECONDS = 20.0
# By location of a workspace: what writes its tables then, and when the first answer came that they lack.
_timers: dict[str, Timer] = {}
_first_answers: dict[str, float] = {}
_lock, _write_lock = Lock(), Lock()


def render() -> None:
    """Draw what was measured, and what the person is asked next."""
    workspace = cached_reads.workspace()
    person = read_login_name() or read_parameter("person") or user_name()
    _draw_measured(person)
    queues = cached_reads.limited(workspace.review.queues)
    if not queues:
        st.header("Nothing to review yet")
        st.write("A queue asks about captions or episodes that are drawn at random.")
        _draw_new_queue(person, 1)
        return
    named = read_parameter("queue", queues[0].name)
    if named not in (queue.name for queue in queues):
        names = ", ".join(queue.name for queue in queues[:20])
        raise AddressError("queue", f"there is no queue {named!r}", f"there are: {names}")
    _draw_choice(queues, named, person)
    _draw_item(named, person)


def _draw_measured(person: str) -> None:
    """Draw how much of what each dataset says is true, with a button that measures it."""
    measured = [share for shares in cached_reads.read_measured().values() for share in shares]
    for share in measured[:_MOST_MEASURED]:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.button(
                f"Measure {escape_markdown(share.dataset)}",
                key=f"{_MEASURE}.{share.dataset}.{share.question}",
                icon=":material/straighten:",
                on_click=guard_field(_MEASURE, _start_measurement),
                args=(share.dataset, share.question, person),
            )
            st.markdown(escape_markdown(str(share)), width="content")
    if len(measured) > _MOST_MEASURED:
        st.caption(f"{_MOST_MEASURED} of {count_of(len(measured), 'line')}; the page Status has all")
    draw_refusal(_MEASURE)


def _start_measurement(dataset: str, question: str, person: str) -> None:
    """Draw what is to be asked, unless that was done, and show the first question."""
    reviews = cached_reads.workspace().review
    measurement = cached_reads.limited(partial(reviews.measure, dataset, question, person=person))
    write_parameter("queue", cached_reads.limited(lambda: measurement.drawing).queue.name)


def _draw_new_queue(person: str, number: int) -> None:
    """Draw the form that makes a queue.

    Args:
        person: Who makes it.
        number: The how many-th it is, for its name.
    """
    from ares.review import list_criteria

    judged = cached_reads.limited(partial(list_criteria, cached_reads.workspace().stores))
    with st.form("review.new", border=False):
        st.text_input("Name", "review" if number == 1 else f"review-{number}", 80, key=_NEW_NAME)
        questions = list(dict.fromkeys(["acceptable", "success", "instruction", *judged]))
        st.selectbox("Question", questions, key=_NEW_QUESTION, format_func=_question_title)
        st.number_input("Items drawn at random", 1, 100_000, 60, key=_NEW_SIZE)
        st.text_input(
            "Only episodes that fulfil (SQL)",
            key=_NEW_WHERE,
            placeholder="dataset = 'lids'",
            help="Empty: all.",
        )
        make = guard_field(_NEW_NAME, _make_queue)
        st.form_submit_button("Make a queue", on_click=make, args=(person,))
    draw_refusal(_NEW_NAME)


def _question_title(question: str) -> str:
    return _QUESTIONS.get(question, f"Is the criterion “{code_words(question)}” met?")


def _make_queue(person: str) -> None:
    name, where, size = entered_text(_NEW_NAME), entered_text(_NEW_WHERE), entered_text(_NEW_SIZE, "60")
    request = QueueRequest(
        name=name,
        question=entered_text(_NEW_QUESTION),
        person=person,
        random_items=int(size),
        annotator="caption",
    )
    cached_reads.limited(partial(cached_reads.workspace().review.create, request, where=where), where)
    write_parameter("queue", name)


def _draw_choice(queues: Sequence[Queue], named: str, person: str) -> None:
    """Draw who answers, and which queue; both stand in the address, so that a reload keeps them."""
    columns = st.columns([2, 2, 4], vertical_alignment="bottom")
    names = [queue.name for queue in queues]
    with columns[0]:
        st.selectbox(
            "Queue",
            names,
            names.index(named),
            key=f"{_QUEUE}.{named}",
            on_change=_choose_queue,
            args=(named,),
        )
    with columns[1]:
        st.text_input(
            "You are", person, 80, key=f"{_PERSON}.{person}", args=(person,), disabled=bool(read_login_name()),
            on_change=guard_field(_PERSON, _choose_person),
        )  # fmt: skip
    # With another key it is closed once there is one more queue.
    with columns[2], st.popover("New queue", icon=":material/add:", key=f"review.new.{len(queues)}"):
        _draw_new_queue(person, len(queues) + 1)
    draw_refusal(_PERSON)


def _choose_queue(before: str) -> None:
    write_parameter("queue", entered_text(f"{_QUEUE}.{before}", before))


def _choose_person(before: str) -> None:
    person = entered_text(f"{_PERSON}.{before}", before) or before
    check_person_name(person)
    write_parameter("person", person)


class _ShownItem(NamedTuple):
    """What is read for one item, all at once: an answer costs one query and no more.

    Attributes:
        item: What the person is asked; None where nothing is left.
        progress: How far the queue is.
        earlier: What the person said of it before, also what was taken back.
        following: Ids of the episodes that are probably asked about next.
    """

    item: QueueItem | None
    progress: QueueProgress | MeasuredShare
    earlier: Answer | None = None
    following: Sequence[str] = ()


def _read_item(queue: ReviewQueue, stores: Stores, person: str, episodes: dict[str, Episode]) -> _ShownItem:
    """Read an item, and its episode where it is not among those that were read before."""
    measurement = open_measurement(stores, queue.queue.name, person)
    item = measurement.next() if measurement else queue.next(person)
    progress = measurement.progress if measurement else queue.progress(person)
    if item is None:
        return _ShownItem(item, progress)
    earlier = find_earlier_answer(stores, item.episode_id, item.question, item.subject_id, person)
    following = queue.next_episodes(item, 2)
    if item.episode_id not in episodes:
        episodes[item.episode_id] = stores.tables.episodes.get_episode(item.episode_id)
    return _ShownItem(item, progress, earlier, following)


@st.fragment
def _draw_item(named: str, person: str) -> None:
    """Draw what is asked; a key draws this part of the page again, and no other."""
    navigation.accept_next_message()
    stores = cached_reads.workspace().stores
    queue = ReviewQueue(stores, named)
    episodes: dict[str, Episode] = dict(st.session_state.get(_EPISODES, {}))
    shown = cached_reads.limited(partial(_read_item, queue, stores, person, episodes))
    item, undo = shown.item, guard_field("review.item", _undo_last)
    draw_refusal("review.item")
    if item is None:
        st.success(f"Nothing is left for you: {escape_markdown(str(shown.progress))}")
        if isinstance(shown.progress, QueueProgress) and shown.progress.items > shown.progress.answered:
            st.write(
                f"{shown.progress.items - shown.progress.answered} not answered: shown to other people, for "
                f"{LEASE_SECONDS / 60:.0f} minutes each, or without their episode."
            )
        st.button("Take the last answer back", key="review.undo", on_click=undo, args=(queue, person))
    else:
        react = guard_field("review.item", partial(_react_to_key, queue, item, person))
        draw_review(_item_data(queue, item, shown, episodes), "review.item", react)
        known = (item.episode_id, *shown.following)
        st.session_state[_EPISODES] = kept = {key: episodes[key] for key in known if key in episodes}
        Thread(target=_load_ahead, args=(stores, kept, shown.following), name="ahead", daemon=True).start()
    if st.toggle("Your answers", key=_ANSWERS):
        _draw_answers(queue, person)


def _load_ahead(stores: Stores, episodes: dict[str, Episode], ids: Sequence[str]) -> None:
    """Read the episodes of the next items, while the person looks at this one; an error is left to the item itself."""
    new = [episode_id for episode_id in ids if episode_id not in episodes]
    with suppress(AresError):
        for episode in stores.tables.episodes.get(new) if new else ():
            episodes[episode.episode_id] = episode


def _item_data(
    queue: ReviewQueue, item: QueueItem, shown: _ShownItem, episodes: Mapping[str, Episode]
) -> dict[str, Json]:
    settings, earlier = cached_reads.workspace().stores.settings, shown.earlier
    is_outcome = item.question == "success"
    following = [episodes[key] for key in shown.following[:1] if key in episodes]
    return {
        # What the person has written of the item before, and need not write again.
        "reason": earlier.reason if earlier else "",
        "kind": earlier.failure_kind if earlier else "",
        "severity": earlier.severity if earlier else "",
        "kinds": list[Json](settings.failure_kinds) if is_outcome else [],
        "severities": list[Json](settings.failure_severities) if is_outcome else [],
        "reasons": list[Json](st.session_state.get(_REASONS, ())),
        "id": _item_id(item),
        "question": _question_title(item.question),
        "text": item.text,
        "progress": str(shown.progress),
        "guideline": queue.queue.guideline,
        "start": item.start_seconds,
        "stop": item.stop_seconds,
        "cameras": list[Json](_camera_rows(episodes[item.episode_id], item)),
        # Clips that are probably shown next: the browser loads them while the person looks.
        "ahead": [camera["video"] for episode in following for camera in _camera_rows(episode, item)],
        "keys": [
            {"key": key, "verdict": verdict, "label": label} for key, verdict, label in _answer_keys(item)
        ],
    }


def _item_id(item: QueueItem) -> str:
    return f"{item.queue}/{item.item}/{item.seat}"


def _answer_keys(item: QueueItem) -> Sequence[tuple[str, str, str]]:
    return _SUCCESS_KEYS if item.question == "success" else _USUAL_KEYS


def _camera_rows(episode: Episode, item: QueueItem) -> list[dict[str, Json]]:
    """Clips of the good cameras, with the frames that decide."""
    good = [camera for camera in episode.cameras if not camera.flags] or list(episode.cameras)
    middle = (item.start_seconds + item.stop_seconds) / 2
    return [
        {
            "name": camera.name,
            "video": make_video_url(episode, camera.name),
            "poster": make_poster_url(episode, camera.name, middle),
            "frames": [
                make_poster_url(episode, camera.name, second) for second in item.evidence[:_MAX_FRAMES]
            ],
        }
        for camera in good[:_MAX_CAMERAS]
    ]


def _react_to_key(
    queue: ReviewQueue, item: QueueItem, person: str, clicks: Sequence[Mapping[str, Any]]
) -> None:
    """Store the answer that a key gave, or take the last one back; a key for an item that is gone is left out."""
    for click in clicks:
        verdict = str(click["verdict"])
        if str(click["id"]) != _item_id(item):
            continue
        if verdict == _UNDO:
            queue.undo(person)
        elif verdict in (known for _, known, _ in _answer_keys(item)):
            reason, is_failure = str(click.get("reason") or "").strip(), verdict == "failure"
            queue.answer(
                item,
                person,
                verdict,
                reason=reason,
                failure_kind=str(click.get("kind") or "") if is_failure else "",
                severity=str(click.get("severity") or "") if is_failure else "",
                shown=click.get("shown") is True,
            )
            if reason:
                earlier = [text for text in st.session_state.get(_REASONS, ()) if text != reason]
                st.session_state[_REASONS] = [reason, *earlier][:_MOST_REASONS]
        _let_tables_follow(queue, person)


def _undo_last(queue: ReviewQueue, person: str) -> None:
    queue.undo(person)
    _let_tables_follow(queue, person)


def _let_tables_follow(queue: ReviewQueue, person: str) -> None:
    """Let filters and counts show the answers, soon where that is quick."""
    workspace = cached_reads.workspace()
    is_small = workspace.stores.tables.episodes.count() <= _FEW_EPISODES
    if is_small or queue.progress(person).own % _ANSWERS_PER_SYNC == 0:
        _follow_answers(workspace.stores)


def _draw_answers(queue: ReviewQueue, person: str) -> None:
    """Draw the answers of the person; a selected one can be changed."""
    reviews = cached_reads.workspace().review
    answers = cached_reads.limited(partial(reviews.answers, queue=queue.queue.name, person=person))
    shown = answers[:_MAX_ANSWERS]
    if not shown:
        st.caption("none yet")
        return
    rows = [
        {
            "item": row.answer.item + 1,
            "episode": row.episode_id,
            "answer": _verdict_words(row.answer.verdict),
            "failure": " ".join(filter(None, (row.answer.failure_kind, row.answer.severity))),
            "reason": row.answer.reason,
            "when (UTC)": time_words(row.created),
        }
        for row in shown
    ]
    number = draw_table(rows, "review.list", "Change")
    if number is not None:
        _draw_changes(queue, shown[number], person)


def _verdict_words(verdict: str) -> str:
    return VERDICTS.get(verdict.upper(), verdict)


def _draw_changes(queue: ReviewQueue, row: AnswerRow, person: str) -> None:
    verdicts = [
        verdict for _, verdict, _ in (_SUCCESS_KEYS if row.answer.question == "success" else _USUAL_KEYS)
    ]
    for verdict, column in zip(verdicts, st.columns(len(verdicts)), strict=True):
        column.button(
            f"Change to “{_verdict_words(verdict)}”",
            key=f"review.change.{verdict}",
            disabled=verdict == row.answer.verdict,
            on_click=guard_field("review.item", _change_answer),
            args=(queue, row, verdict, person),
        )


def _change_answer(queue: ReviewQueue, row: AnswerRow, verdict: str, person: str) -> None:
    if row.answer.person != person:
        raise RequestError("that is not your answer", row.answer.person)
    changed = replace(row.answer, verdict=verdict)
    queue.give(changed if verdict == "failure" else replace(changed, failure_kind="", severity=""))
    _let_tables_follow(queue, person)


def _follow_answers(stores: Stores) -> None:
    """Let filters and counts show what is in the log, soon after the last answer: nobody waits for them.

    An error is left to the next command, which says what the tables lack.
    """
    with _lock:
        if (waiting := _timers.get(stores.location)) is not None:
            waiting.cancel()
        now = time.monotonic()
        left = _first_answers.setdefault(stores.location, now) + _MOST_SECONDS - now
        timer = _timers[stores.location] = Timer(
            max(0.0, min(_PAUSE_SECONDS, left)), _write_tables, (stores,)
        )
        timer.daemon = True
        timer.start()


def _write_tables(stores: Stores) -> None:
    with _lock:
        _first_answers.pop(stores.location, None)
    with _write_lock, suppress(AresError):
        stores.sync()
