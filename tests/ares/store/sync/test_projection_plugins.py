"""A room above the store adds columns by a plug-in: it counts when its annotations come, and is asked about rulings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import pytest

from ares.annotation import Annotation, Producer
from ares.episode import Json, Record
from ares.errors import PluginError
from ares.registry import projections
from ares.store import AnnotationStore, InstalledProjections, ProducerCatalog
from ares.store.lance_tables import Tables
from ares.store.log.sqlite import SqliteAnnotationStore
from ares.store.sync.apply import apply_log

PRODUCER = Producer(annotator="vote", version="1")
MakeAnnotation = Callable[..., Annotation]


class VoteProjection:
    """Counts annotations "vote", and lets a ruling decide them."""

    counted = "vote"

    def __init__(self) -> None:
        self.counts: list[int] = []
        self.refreshed = 0
        self.is_broken = False

    def count(self, tables: Tables, annotations: AnnotationStore) -> None:
        self.counts.append(len(annotations.find_episodes("vote")))

    def refresh(self, tables: Tables, annotations: AnnotationStore, catalog: ProducerCatalog) -> None:
        if self.is_broken:
            raise KeyError("votes")
        self.refreshed += 1

    def correct(self, value: Mapping[str, Json], rulings: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
        return {"decided": len(rulings)} if "vote" in value else {}

    def followed_columns(self, catalog: ProducerCatalog, existing: Collection[str]) -> dict[str, str]:
        return {"votes": "vote_maker IS NOT NULL"} if "votes" in existing else {}


@pytest.fixture
def votes() -> Iterator[VoteProjection]:
    """An installed projection."""
    projection = VoteProjection()
    projections.add("votes", lambda: projection)
    yield projection
    projections.remove("votes")


@pytest.fixture
def write(
    tables: Tables,
    sqlite: SqliteAnnotationStore,
    make_record: Callable[..., Record],
    make_annotation: MakeAnnotation,
) -> Callable[[int, str], None]:
    """Adds an episode with one annotation of a name, and applies the log."""
    sqlite.add_producer(PRODUCER)

    def run(number: int, name: str) -> None:
        record = make_record(number)
        tables.episodes.add([record])
        episode_id = record.episode.episode_id
        sqlite.append([make_annotation(episode_id, name=name, maker_id=PRODUCER.maker_id, value={})])
        apply_log(tables, sqlite)

    return run


def test_a_projection_counts_when_annotations_of_its_name_have_come(
    votes: VoteProjection, write: Callable[[int, str], None], tables: Tables, sqlite: SqliteAnnotationStore
) -> None:
    write(0, "vote")
    assert (votes.counts, votes.refreshed) == ([1], 1)
    write(1, "other")
    assert (votes.counts, votes.refreshed) == ([1], 2), "columns may be new, the votes are not"
    write(2, "vote")
    assert (votes.counts, votes.refreshed) == ([1, 2], 3)
    apply_log(tables, sqlite)
    assert votes.refreshed == 3, "nothing is new"


def test_a_projection_that_is_installed_later_counts_with_the_next_annotation(
    write: Callable[[int, str], None],
) -> None:
    write(0, "vote")
    late = VoteProjection()
    projections.add("late", lambda: late)
    try:
        write(1, "other")
    finally:
        projections.remove("late")
    assert late.counts == [1]


def test_a_fault_of_a_projection_names_it_and_what_it_counts_is_counted_again(
    votes: VoteProjection, write: Callable[[int, str], None], tables: Tables, sqlite: SqliteAnnotationStore
) -> None:
    votes.is_broken = True
    with pytest.raises(PluginError, match="projection 'votes' raised KeyError"):
        write(0, "vote")
    votes.is_broken = False
    apply_log(tables, sqlite)
    assert (votes.counts, votes.refreshed) == ([1, 1], 1)


def test_rulings_change_what_their_projection_says(votes: VoteProjection) -> None:
    installed = InstalledProjections()
    ruling: dict[str, Json] = {"criterion": "VERB", "verdict": "UNMET", "category": "essential"}
    corrected = installed.correct({"vote": True, "note": "seen"}, [ruling])
    assert (corrected["decided"], corrected["vote"], corrected["note"]) == (1, True, "seen")
    assert "decided" not in installed.correct({"note": "seen"}, [ruling])
    catalog = ProducerCatalog({})
    assert installed.followed_columns(catalog, ["votes"]) == {"votes": "vote_maker IS NOT NULL"}
    assert installed.followed_columns(catalog, ["other"]) == {}
