"""The default cut: at the widest gap, never above what has all words, and above what nothing says."""

from __future__ import annotations

import numpy as np
import pytest

from ares.search.relevance import choose_relevance_threshold


@pytest.mark.parametrize(
    ("scores", "has_words", "cut"),
    [
        # Three that are alike, then nothing like them.
        ([0.95, 0.94, 0.9, 0.35, 0.1], True, 0.9),
        # Two of nearly the same score, far from the third.
        ([0.99, 0.98, 0.5, 0.45], True, 0.98),
        # The widest gap lies above the least score that counts.
        ([0.55, 0.5, 0.2, 0.0], True, 0.5),
        # Nothing reaches the least score: nothing passes.
        ([0.29, 0.2], True, 0.3),
        ([0.69, 0.5], False, 0.7),
        # By vectors alone the best one is always 1, and more is needed.
        ([1.0, 0.98, 0.75, 0.6], False, 0.98),
        ([], True, 0.3),
    ],
)
def test_the_cut_is_at_the_widest_gap(scores: list[float], has_words: bool, cut: float) -> None:
    assert choose_relevance_threshold(np.array(scores), None, has_words=has_words) == cut


def test_an_episode_with_all_words_passes() -> None:
    scores, complete = np.array([0.99, 0.6, 0.58, 0.5, 0.4]), np.array([True, True, False, False, False])
    assert choose_relevance_threshold(scores, None, has_words=True) == 0.99
    assert choose_relevance_threshold(scores, complete, has_words=True) == 0.6
