"""`ares annotate valuation`: what cannot be scored is empty, with the reason."""

from __future__ import annotations

from collections.abc import Callable

from annotators.base import Options, Result, Work
from annotators.valuation import ValuationAnnotator
from ares.episode import Episode
from ares.workspace import Workspace


def test_an_episode_without_a_score_says_why(
    options: Options, ws: Workspace, episodes: dict[str, Episode], work_for: Callable[..., Work]
) -> None:
    annotator = ValuationAnnotator(options, ws.stores)
    (result,) = annotator.process([work_for(next(iter(episodes.values())), [annotator])])
    assert isinstance(result, Result)
    assert str(result.annotations[0].value["valuation_gaps"]).startswith("['episode_value: ")
    assert "episode_value" not in result.annotations[0].value
