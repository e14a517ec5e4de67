"""Rankings: one moment per episode, fusion that is deterministic and rewards agreement."""

from __future__ import annotations

from threading import Barrier

from hypothesis import given
from hypothesis import strategies as st

from ares.search.rank import Ranking, best_per_episode, fuse, together
from ares.store.vectors import Moment

moments = st.lists(
    st.builds(
        Moment,
        episode_id=st.sampled_from(["e1", "e2", "e3", "e4"]),
        camera=st.sampled_from(["", "front", "wrist"]),
        seconds=st.sampled_from([0.0, 0.5, 1.0]),
        score=st.sampled_from([0.1, 0.2, 0.9]),
    )
)


@given(moments, st.randoms())
def test_the_best_moment_of_each_episode_whatever_the_order(
    found: list[Moment], random: st.DataObject
) -> None:
    best = best_per_episode(found)
    assert {moment.episode_id for moment in best} == {moment.episode_id for moment in found}
    for moment in best:
        assert moment.score == max(other.score for other in found if other.episode_id == moment.episode_id)
    shuffled = list(found)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert best_per_episode(shuffled) == best
    assert [moment.score for moment in best] == sorted((moment.score for moment in best), reverse=True)


def test_an_episode_in_both_rankings_comes_first_and_shows_the_moment_with_a_camera() -> None:
    looks = [_moment("a", "front", 1.0, 0.9), _moment("b", "wrist", 2.0, 0.8)]
    words = [_moment("b", "", 0.0, 7.0), _moment("c", "", 0.0, 6.0)]
    fused = fuse([Ranking(words), Ranking(looks)])
    assert fused[0] == _moment("b", "wrist", 2.0, 1 / 61 + 1 / 62)
    assert [moment.episode_id for moment in fused] == ["b", "a", "c"]


@given(st.permutations([(1, 0.1), (2, 0.7), (3, 1.0), (5, 0.3)]))
def test_equals_stay_equal_whatever_the_order_of_the_rankings(order: list[tuple[int, float]]) -> None:
    def at(place: int, one: str) -> list[Moment]:
        return [
            *(_moment(f"x{number}", "", 0.0, 1.0) for number in range(1, place)),
            _moment(one, "", 0.0, 1.0),
        ]

    rankings = [Ranking(at(place, "b"), weight) for place, weight in order]
    rankings += [Ranking(at(place, "a"), weight) for place, weight in reversed(order)]
    both = [moment for moment in fuse(rankings) if moment.episode_id in "ab"]
    assert [moment.episode_id for moment in both] == ["a", "b"] and both[0].score == both[1].score


def test_a_weight_decides_between_rankings_that_disagree() -> None:
    looks, words = [_moment("a", "front", 1.0, 0.9)], [_moment("b", "", 0.0, 7.0)]
    assert [moment.episode_id for moment in fuse([Ranking(looks), Ranking(words, 2.0)])] == ["b", "a"]
    assert [moment.episode_id for moment in fuse([Ranking(looks, 2.0), Ranking(words)])] == ["a", "b"]


def _moment(episode_id: str, camera: str, seconds: float, score: float) -> Moment:
    return Moment(episode_id=episode_id, camera=camera, seconds=seconds, score=score)


def test_parts_are_asked_at_once_and_answered_in_their_order() -> None:
    meeting = Barrier(3, timeout=20)
    assert together([lambda part=part: (meeting.wait(), part)[1] for part in "abc"]) == ["a", "b", "c"]  # type: ignore[misc]
    assert together([]) == []
