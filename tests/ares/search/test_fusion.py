"""Fusion of rankings: one moment per episode, deterministic, and agreement is rewarded."""

from __future__ import annotations

from functools import partial
from threading import Barrier

from hypothesis import given, strategies as st

from ares.search.engine import Ranking, fuse_rankings, keep_best_moment_per_episode, run_concurrently
from ares.store import Moment

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
    candidates: list[Moment], random: st.DataObject
) -> None:
    best = keep_best_moment_per_episode(candidates)
    assert {moment.episode_id for moment in best} == {moment.episode_id for moment in candidates}
    for moment in best:
        assert moment.score == max(
            other.score for other in candidates if other.episode_id == moment.episode_id
        )
    shuffled = list(candidates)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert keep_best_moment_per_episode(shuffled) == best
    assert [moment.score for moment in best] == sorted((moment.score for moment in best), reverse=True)


def test_an_episode_in_both_rankings_comes_first_and_shows_the_moment_with_a_camera() -> None:
    by_frames = [_moment("a", "front", 1.0, 0.9), _moment("b", "wrist", 2.0, 0.8)]
    by_captions = [_moment("b", "", 0.0, 7.0), _moment("c", "", 0.0, 6.0)]
    fused = fuse_rankings([Ranking(by_captions), Ranking(by_frames)])
    assert fused[0] == _moment("b", "wrist", 2.0, 1 / 61 + 1 / 62)
    assert [moment.episode_id for moment in fused] == ["b", "a", "c"]


@given(st.permutations([(1, 0.1), (2, 0.7), (3, 1.0), (5, 0.3)]))
def test_equals_stay_equal_whatever_the_order_of_the_rankings(order: list[tuple[int, float]]) -> None:
    def ranking_with(rank: int, episode_id: str) -> list[Moment]:
        return [
            *(_moment(f"x{number}", "", 0.0, 1.0) for number in range(1, rank)),
            _moment(episode_id, "", 0.0, 1.0),
        ]

    rankings = [Ranking(ranking_with(rank, "b"), weight) for rank, weight in order]
    rankings += [Ranking(ranking_with(rank, "a"), weight) for rank, weight in reversed(order)]
    fused = [moment for moment in fuse_rankings(rankings) if moment.episode_id in "ab"]
    assert [moment.episode_id for moment in fused] == ["a", "b"] and fused[0].score == fused[1].score


def test_a_weight_decides_between_rankings_that_disagree() -> None:
    by_frames, by_captions = [_moment("a", "front", 1.0, 0.9)], [_moment("b", "", 0.0, 7.0)]
    for weights, expected in (((1.0, 2.0), ["b", "a"]), ((2.0, 1.0), ["a", "b"])):
        fused = fuse_rankings([Ranking(by_frames, weights[0]), Ranking(by_captions, weights[1])])
        assert [moment.episode_id for moment in fused] == expected


def _moment(episode_id: str, camera: str, seconds: float, score: float) -> Moment:
    return Moment(episode_id=episode_id, camera=camera, seconds=seconds, score=score)


def test_parts_are_asked_at_once_and_answered_in_their_order() -> None:
    barrier = Barrier(3, timeout=300)

    def meet(name: str) -> str:
        barrier.wait()
        return name

    assert run_concurrently([partial(meet, name) for name in "abc"]) == ["a", "b", "c"]
    assert run_concurrently([]) == []
