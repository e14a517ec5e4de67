"""What the server does beside the pages, so that no click waits for it: first loads, and tables that follow answers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from app.dashboard import cached_reads
from app.dashboard.navigation import import_view
from app.dashboard.view_state import ViewState
from ares.errors import AresError

if TYPE_CHECKING:
    from ares.store import Stores


_lock = Lock()
# The tables follow when nobody has answered for so long, and in any case after so long.
_PAUSE_SECONDS, _LONGEST_WAIT_SECONDS = 2.0, 20.0
# By location of a workspace: whether its tables are to be written once more after the write that runs.
_follows_again: dict[str, bool] = {}


def preload() -> None:
    """Load what the first page, the first search and the first episode need: code, indexes and columns.

    Errors are ignored here: the page that needs the data reports them.
    """
    cached_reads.preload_in_this_thread()
    with suppress(AresError):
        ids = _load_browse()
        # What takes longest comes last: nobody waits for it in the first seconds.
        for load in (_load_search, _load_episode, _load_order):
            with suppress(AresError):
                load(ids)


def _load_browse() -> Sequence[str]:
    """Load the first page; its ids."""
    from app.dashboard.results import read_page

    if not cached_reads.count_episodes(""):
        return ()
    import_view("browse")
    cached_reads.read_facets("")
    ids = read_page(ViewState()).ids
    cached_reads.read_episodes(ids)
    cached_reads.read_captions(ids)
    return ids


def _load_search(ids: Sequence[str]) -> None:
    """Load the model of texts and the index of words, by a search for the words of one episode."""
    from app.dashboard.results import read_page

    cached_reads.warm_up(text="any")
    for episode in cached_reads.read_episodes(ids[:1]):
        if episode.instruction.strip():
            read_page(ViewState(text=episode.instruction))


def _load_episode(ids: Sequence[str]) -> None:
    """Load what an episode shows, by the first one."""
    from app.dashboard.annotation_rows import read_annotations, read_segments
    from app.dashboard.player_data import make_timeline_ticks

    import_view("episode")
    stores = cached_reads.workspace().stores
    for episode in cached_reads.read_episodes(ids[:1]):
        annotations = read_annotations(stores, episode, read_segments(stores, episode))
        trajectory = stores.tables.trajectories.get(episode.episode_id)
        captions: list[Any] = annotations.captions
        make_timeline_ticks(stores, episode, trajectory, captions)
        cached_reads.read_health(episode.dataset)
        with suppress(AresError):
            cached_reads.find_similar_episodes(episode.episode_id, "", 6)


def _load_order(ids: Sequence[str]) -> None:
    """Make the table keep its order: a deep offset does so, and any page is then found at once."""
    from ares.curation import SOURCE_ORDER
    from ares.store import DEEP_OFFSET

    if ids:
        cached_reads.read_ids("", SOURCE_ORDER, DEEP_OFFSET, 1)


def let_tables_follow(stores: Stores) -> None:
    """Let filters and counts show what is in the log, in a thread: who answers does not wait for the tables.

    They are written once nobody has answered for a moment, and while people go on now and then; what comes while they
    are written is written after that, all at once. An error is left to the next command, which says what they lack.
    """
    with _lock:
        is_running = stores.location in _follows_again
        _follows_again[stores.location] = is_running
    if not is_running:
        Thread(target=_follow_log, args=(stores,), name="follow", daemon=True).start()


def _follow_log(stores: Stores) -> None:
    is_requested = True
    while is_requested:
        _wait_for_pause(stores.location)
        with suppress(AresError):
            stores.sync()
        with _lock:
            is_requested = _follows_again.get(stores.location, False)
            _follows_again[stores.location] = False
            if not is_requested:
                del _follows_again[stores.location]


def _wait_for_pause(location: str) -> None:
    """Wait until nobody has answered for `_PAUSE_SECONDS`, at most `_LONGEST_WAIT_SECONDS`."""
    end = time.monotonic() + _LONGEST_WAIT_SECONDS
    is_answered = True
    while is_answered and time.monotonic() < end:
        time.sleep(_PAUSE_SECONDS)
        with _lock:
            is_answered, _follows_again[location] = _follows_again[location], False
