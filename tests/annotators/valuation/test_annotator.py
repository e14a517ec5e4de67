"""`ares annotate valuation`: scores of a file as a column, and what is wrong with a file in one line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from annotators.base import Options, Result, Work
from annotators.valuation import ValuationAnnotator
from annotators.valuation.annotator import read_episode_scores
from ares.episode import Episode, Json
from ares.errors import RequestError
from ares.workspace import Workspace

NOBODY = "0" * 16


def _options(options: Options, **values: Json) -> Options:
    return replace(options, values=values)


def _write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_scores_of_a_training_run_become_a_column(
    options: Options,
    ws: Workspace,
    episodes: dict[str, Episode],
    work_for: Callable[..., Work],
    tmp_path: Path,
) -> None:
    first, second, *_ = episodes.values()
    path = _write(tmp_path / "run.csv", f"episode_id,score,note\n{first.episode_id},0.25,good\n{NOBODY},1,\n")
    annotator = ValuationAnnotator(_options(options, scores=path, column="loss"), ws.stores)
    results = annotator.process([work_for(episode, [annotator]) for episode in (first, second)])
    values = [result.annotations[0].value for result in results if isinstance(result, Result)]
    assert values[0] == {"loss": 0.25}
    assert values[1] == {"valuation_gaps": ["loss: the file of scores does not name the episode"]}
    assert [column.name for column in annotator.maker.columns] == ["loss", "valuation_gaps"]


def test_other_scores_are_another_maker(options: Options, ws: Workspace, tmp_path: Path) -> None:
    texts = (f"episode_id,score\n{NOBODY},{score}\n" for score in (1, 2, 1))
    paths = [_write(tmp_path / f"{n}.csv", text) for n, text in enumerate(texts)]
    makers = [ValuationAnnotator(_options(options, scores=path), ws.stores).maker.maker_id for path in paths]
    assert makers[0] == makers[2] != makers[1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"id,score\n", "the file of scores has no column 'episode_id'"),
        (b"", "the file of scores has no column 'episode_id'"),
        (b"episode_id,score\n\xff\xfe,1\n", "the file of scores is no UTF-8 text"),
    ],
)
def test_a_wrong_file_is_one_line(text: bytes, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_bytes(text)
    with pytest.raises(RequestError, match=expected):
        read_episode_scores(str(path))


def test_a_wrong_row_costs_its_episode(tmp_path: Path) -> None:
    rows = (f"{NOBODY},nan", ",1", f"{'1' * 16},2", f"{'1' * 16},3", f"{'2' * 16},4", f"{'3' * 16}")
    scores = read_episode_scores(_write(tmp_path / "run.csv", "\n".join(("episode_id,score", *rows)) + "\n"))
    assert (scores.scores, scores.num_unusable) == ({"2" * 16: 4.0}, 1)
    assert scores.faults[NOBODY] == "its score in the file is no finite number"
    assert scores.faults["1" * 16] == "the file has several scores of it"
    assert scores.faults["3" * 16] == "its score in the file is no finite number"
