"""Page "Review": asks one item of a queue at a time, answered by one key, blind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from threading import Lock, Thread, Timer
from typing import TYPE_CHECKING, Any, NamedTuple

import streamlit as st

from ares.console import count_of
from ares.episode import Json
from ares.errors import AresError
from ares.review import (
    LEASE_SECONDS,
    UNDO_KEY,
    USUAL_SHARE,
    Answer,
    Queue,
    QueueItem,
    QueueProgress,
    QueueRequest,
    ReviewQueue,
    find_earlier_answer,
    list_answer_keys,
    person_settings,
    prepare_answer,
    store_prepared,
)
from ares.settings import user_name
from ares.workspace import open_measurement
from ares_app.dashboard import cached_reads, navigation
from ares_app.dashboard.address import read_parameter, write_parameter
from ares_app.dashboard.cards import make_poster_url, make_video_url
from ares_app.dashboard.column_words import code_words, time_words
from ares_app.dashboard.components import draw_table, load_component, when_sent
from ares_app.dashboard.fields import draw_refusal, entered_text, guard_field
from ares_app.dashboard.markdown_text import escape_markdown
from ares_app.dashboard.selection_bar import read_login_name
from ares_app.dashboard.view_state import AddressError
from ares_app.server import check_person_name

if TYPE_CHECKING:
    from ares.episode import Episode
    from ares.review import MeasuredShare
    from ares.store import Stores
    from ares.workspace import AnswerRow


_INSTRUCTION = "instruction"
_QUESTIONS = {
    "acceptable": "Is the text true?",
    "success": "Did the episode succeed?",
    _INSTRUCTION: "Is this the instruction of the episode?",
}
# Cameras and frames of one item that are drawn, and answers in the list.
_MAX_CAMERAS, _MAX_FRAMES, _MAX_ANSWERS = 4, 3, 200
# The tables of a larger workspace follow after so many answers of a person; the log has each at once.
_FEW_EPISODES, _ANSWERS_PER_SYNC = 20_000, 20
# Reasons that the person gave last, in this session.
_REASONS, _MOST_REASONS = "review.reasons", 8
_NEW_NAME, _NEW_QUESTION = "review.new.name", "review.new.question"
_NEW_SIZE, _NEW_WHERE = "review.new.size", "review.new.where"
# Episodes of the item and of the next ones, by id.
_EPISODES = "review.episodes"
_QUEUE, _PERSON, _ANSWERS = "review.queue", "review.person", "review.answers"
# The tables follow so long after an answer, with all that came until then.
_PAUSE_SECONDS = 5.0
# Locations of the workspaces whose tables will be written.
_waiting: set[str] = set()
_lock, _write_lock = Lock(), Lock()


def render() -> None:
    """Draw what the person is asked next, and the form of a new queue."""
    # Behind a password the user of the server is not the one who answers.
    usual = "" if cached_reads.page_limits().needs_login else user_name()
    person = read_login_name() or read_parameter("person") or usual
    queues = cached_reads.limited(cached_reads.workspace().review.queues)
    if not person:
        st.text_input(
            "Your name", "", 80, key=f"{_PERSON}.", args=("",), on_change=guard_field(_PERSON, _choose_person),
            placeholder="Your answers are stored under it; Enter goes on",
        )  # fmt: skip
        draw_refusal(_PERSON)
        return
    if not queues:
        st.header("Nothing to review yet")
        st.write("A queue asks about captions or episodes that are drawn at random.")
        _draw_new_queue(person, 1)
        _draw_link_to_quality(person)
        return
    named = read_parameter("queue", queues[0].name)
    if named not in (queue.name for queue in queues):
        names = ", ".join(queue.name for queue in queues[:20])
        raise AddressError("queue", f"there is no queue {named!r}", f"there are: {names}")
    _draw_choice(queues, named, person)
    _draw_item(named, person)
    # With another key it is closed once there is one more queue.
    with st.container(horizontal=True, vertical_alignment="center"):
        with st.popover("New queue", icon=":material/add:", key=f"review.new.{len(queues)}"):
            _draw_new_queue(person, len(queues) + 1)
        _draw_link_to_quality(person)
    st.caption(f"The address for others, who say their own name: `/review?queue={named}`")


def _draw_link_to_quality(person: str) -> None:
    st.button(
        "Measure how true texts are", key="review.measure", icon=":material/straighten:", type="tertiary",
        on_click=navigation.open_page, args=("quality", {"person": [person]}),
    )  # fmt: skip


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
        questions = list(dict.fromkeys(["acceptable", "success", _INSTRUCTION, *judged]))
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
    names = [queue.name for queue in queues]
    with st.container(key="review_bar"):
        queue_column, person_column, _ = st.columns([2, 2, 4], vertical_alignment="bottom")
    with queue_column:
        st.selectbox(
            "Queue",
            names,
            names.index(named),
            key=f"{_QUEUE}.{named}",
            on_change=_choose_queue,
            args=(named,),
        )
    with person_column:
        st.text_input(
            "You are", person, 80, key=f"{_PERSON}.{person}", args=(person,), disabled=bool(read_login_name()),
            on_change=guard_field(_PERSON, _choose_person),
        )  # fmt: skip
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
        progress: How far the person and the queue are.
        share: What was measured, where the queue measures.
        earlier: What the person said of it before, also what was taken back.
        following: Ids of the episodes that are probably asked about next.
    """

    item: QueueItem | None
    progress: QueueProgress
    share: MeasuredShare | None
    earlier: Answer | None = None
    following: Sequence[str] = ()


def _read_item(queue: ReviewQueue, stores: Stores, person: str, episodes: dict[str, Episode]) -> _ShownItem:
    """Read an item, and its episode where it is not among those that were read before."""
    measurement = open_measurement(stores, queue.queue.name, person)
    item = measurement.next() if measurement else queue.next(person)
    progress, share = queue.progress(person), measurement.progress if measurement else None
    if item is None:
        return _ShownItem(item, progress, share)
    earlier = find_earlier_answer(stores, item.episode_id, item.question, item.subject_id, person)
    following = queue.next_episodes(item, 2)
    if item.episode_id not in episodes:
        episodes[item.episode_id] = stores.tables.episodes.get_episode(item.episode_id)
    return _ShownItem(item, progress, share, earlier, following)


@st.fragment
def _draw_item(named: str, person: str) -> None:
    """Draw what is asked; a key draws this part of the page again, and no other."""
    navigation.accept_next_message()
    stores = cached_reads.workspace().stores
    queue = cached_reads.review_queue(named)
    episodes: dict[str, Episode] = dict(st.session_state.get(_EPISODES, {}))
    shown = cached_reads.limited(partial(_read_item, queue, stores, person, episodes))
    item, undo = shown.item, guard_field("review.item", _undo_last)
    draw_refusal("review.item")
    if item is None:
        _draw_end(queue.queue, shown, person)
        st.button("Take the last answer back", key="review.undo", on_click=undo, args=(queue, person))
    else:
        react = guard_field("review.item", partial(_react_to_key, queue, item, person))
        data = _item_data(queue, item, shown, episodes)
        handle = when_sent("review.item", "said", react)
        load_component("review")(data=data, key="review.item", on_said_change=handle)
        known = (item.episode_id, *shown.following)
        st.session_state[_EPISODES] = kept = {key: episodes[key] for key in known if key in episodes}
        Thread(target=_load_ahead, args=(stores, kept, shown.following), name="ahead", daemon=True).start()
    if st.toggle("Your answers", key=_ANSWERS):
        _draw_answers(queue, person)


def _draw_end(queue: Queue, shown: _ShownItem, person: str) -> None:
    """Say that nothing is left for the person, where the answers are, and what is left for others."""
    progress, share = shown.progress, shown.share
    st.success(f"Nothing is left for you: you answered {count_of(progress.own, 'question', comma=True)}.")
    words = [
        f"Your answers are stored in this workspace, under the name {person}. "
        f"{queue.person}, who made the queue {queue.name}, reads them there. Nothing has to be sent."
    ]
    if share:
        words.append(f"Measured: {share}.")
    elif progress.left:
        words.append(
            f"{progress.left:,} not answered: shown to another person, for {LEASE_SECONDS / 60:.0f} minutes "
            "each, or without the episode. Open this page again later."
        )
    st.write("\n\n".join(escape_markdown(line) for line in words))


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
        "writes": _find_text_to_write(item),
        "kinds": list[Json](settings.failure_kinds) if is_outcome else [],
        "severities": list[Json](settings.failure_severities) if is_outcome else [],
        "reasons": list[Json](st.session_state.get(_REASONS, ())),
        "id": _item_id(item),
        "question": _question_title(item.question),
        "text": item.text,
        "progress": _describe_progress(shown),
        "guideline": queue.queue.guideline,
        "start": item.start_seconds,
        "stop": item.stop_seconds,
        "cameras": list[Json](_camera_rows(episodes[item.episode_id], item)),
        # Clips that are probably shown next: the browser loads them while the person looks.
        "ahead": [camera["video"] for episode in following for camera in _camera_rows(episode, item)],
        "keys": [dict[str, Json](answer._asdict()) for answer in list_answer_keys(item.question)],
    }


def _describe_progress(shown: _ShownItem) -> str:
    """How far the person is; of a measurement also what it still needs, and not what it shows."""
    if shown.share is None:
        return shown.progress.describe_own()
    return f"you: {shown.progress.own:,}; {shown.share.describe_missing(USUAL_SHARE)}"


def _find_text_to_write(item: QueueItem) -> str:
    """What the person can write beside the answer: the right instruction, or the caption of an episode without one."""
    if item.question == _INSTRUCTION:
        return "if not: the right instruction"
    columns = cached_reads.read_captions([item.episode_id]).get(item.episode_id, {})
    return "" if columns.get("caption") else "what the robot does"


def _item_id(item: QueueItem) -> str:
    return f"{item.queue}/{item.item}/{item.seat}"


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


def _react_to_key(queue: ReviewQueue, item: QueueItem, person: str, click: Mapping[str, Any]) -> None:
    """Store the answer that a key gave, or take the last one back; a key for an item that is gone is left out."""
    verdict = str(click["verdict"])
    if str(click["id"]) != _item_id(item):
        return
    if verdict == UNDO_KEY:
        queue.undo(person)
    elif verdict in (answer.verdict for answer in list_answer_keys(item.question)):
        reason, is_failure = str(click.get("reason") or "").strip(), verdict == "failure"
        text, is_instruction = str(click.get("text") or "").strip(), item.question == _INSTRUCTION
        queue.answer(
            item,
            person,
            verdict,
            reason=reason,
            text=text if is_instruction and verdict == "unmet" else "",
            failure_kind=str(click.get("kind") or "") if is_failure else "",
            severity=str(click.get("severity") or "") if is_failure else "",
            shown=click.get("shown") is True,
        )
        if text and not is_instruction:
            _store_caption(item, str(person_settings(person)["person"]), text)
        if reason:
            earlier = [text for text in st.session_state.get(_REASONS, ()) if text != reason]
            st.session_state[_REASONS] = [reason, *earlier][:_MOST_REASONS]
    _let_tables_follow(queue, person)


def _store_caption(item: QueueItem, person: str, text: str) -> None:
    """Store the caption of the episode of an item; an undo of the item takes it back, too."""
    caption = Answer(
        question="text",
        subject_id=item.episode_id,
        subject_kind="episode",
        verdict="",
        person=person,
        text=text,
        queue=item.queue,
        item=item.item,
    )
    stores = cached_reads.workspace().stores
    store_prepared(stores, prepare_answer(stores, caption))


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
    """Draw the answers of the person; one that is taken back is asked again, behind the others."""
    reviews = cached_reads.workspace().review
    answers = cached_reads.limited(partial(reviews.answers, queue=queue.queue.name, person=person))
    shown = answers[:_MAX_ANSWERS]
    if not shown:
        st.caption("none yet")
        return
    words = {answer.verdict: answer.label for answer in list_answer_keys(queue.queue.question)}
    rows = [
        {
            "item": row.answer.item + 1,
            "episode": row.episode_id,
            "answer": ": ".join(filter(None, (words.get(row.answer.verdict), row.answer.text))),
            "failure": " ".join(filter(None, (row.answer.failure_kind, row.answer.severity))),
            "reason": row.answer.reason,
            "when (UTC)": time_words(row.created),
        }
        for row in shown
    ]
    take_back = guard_field("review.item", lambda row: _take_back(queue, shown[row], person))
    # Another table for other answers: what was ticked in one row is no tick of the answer that follows.
    draw_table(rows, f"review.list.{len(answers)}", "Take back", take_back)


def _take_back(queue: ReviewQueue, row: AnswerRow, person: str) -> None:
    cached_reads.workspace().review.withdraw(row.answer_id, person)
    _let_tables_follow(queue, person)


def _follow_answers(stores: Stores) -> None:
    """Let filters and counts show what is in the log, soon after an answer: nobody waits for them.

    An error is left to the next command, which says what the tables lack.
    """
    with _lock:
        if stores.location in _waiting:
            return
        _waiting.add(stores.location)
    timer = Timer(_PAUSE_SECONDS, _write_tables, (stores,))
    timer.daemon = True
    timer.start()


def _write_tables(stores: Stores) -> None:
    with _lock:
        _waiting.discard(stores.location)
    with _write_lock, suppress(AresError):
        stores.sync()
