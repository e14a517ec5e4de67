"""Segments on the command line and in Python: with an episode, by words, by filters; long lists are cut."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ares.errors import RequestError
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from ares_app.dashboard import cached_reads
from ares_app.dashboard.user_limits import UserLimits
from tests.app.contested_producers import MARKUP
from tests.app.drawn import draw
from tests.app.segment_lanes import NUM_MANY, NUM_STYLES, add_segments
from tests.ingesting import ingest_paths
from tests.workspaces import CommandResult

Segmented = tuple[Workspace, str, str]
Output = Callable[..., str]


@pytest.fixture(scope="module")
def segmented(
    tmp_path_factory: pytest.TempPathFactory, demo_samples: Path
) -> Iterator[tuple[Workspace, str, str]]:
    """A workspace, an episode with segments of every kind, and one with thousands."""
    with open_workspace(str(tmp_path_factory.mktemp("segments") / "w"), Settings()) as opened:
        ingest_paths(opened.stores, [str(demo_samples / "video")], limit=3, quiet=True)
        yield opened, *add_segments(opened)


@pytest.fixture
def output(segmented: Segmented, run_ares: Callable[..., CommandResult]) -> Callable[..., str]:
    """What a command prints; of one that is refused its error."""

    def run(*arguments: object, status: int = 0) -> str:
        done = run_ares(*arguments, "-w", segmented[0].path)
        assert done.status == status, done.err
        return done.err if status else done.out

    return run


def test_show_prints_the_segments_of_an_episode_and_python_has_the_same(
    segmented: Segmented, output: Output
) -> None:
    opened, few, _ = segmented
    text = output("show", few)
    rows = [line.split() for line in text.splitlines()]
    header = next(number for number, row in enumerate(rows) if row[:2] == ["start", "end"])
    assert rows[header] == ["start", "end", "style", "arm", "author", "text", "grade", "by"]
    assert [row[:2] for row in rows[header + 1 : header + 10]] == [
        ["0.000", "3.000"], ["0.000", "1.100"], ["0.000", "1.000"], ["0.500", "3.500"], ["1.000", "2.500"],
        ["1.100", "2.400"], ["1.250", "1.250"], ["2.000", "2.000"], ["2.000", "3.000"],
    ]  # fmt: skip
    assert "where is the ball?" in text and text.count("reach the ball") == 1
    documents: Any = json.loads(output("show", few, "--json"))["segments"]
    assert documents == opened.episodes[few].segments.to_json()
    (lifted,) = [segment for segment in opened.episodes[few].segments if segment.text.startswith("lift it")]
    assert (lifted.start_seconds, lifted.stop_seconds, lifted.annotator) == (1.0, 2.5, "source_subtask")
    assert (lifted.style, lifted.author, lifted.grade, lifted.columns) == ("subtask", "person", None, {})
    assert lifted.text == f"lift it {MARKUP}"


def test_show_cuts_thousands_of_segments_and_says_how_all_are_listed(
    segmented: Segmented, output: Output
) -> None:
    opened, few, many = segmented
    count = NUM_MANY + NUM_STYLES
    lines = output("show", many).splitlines()
    assert len(lines) < 80
    (said,) = [line for line in lines if "--json has all" in line]
    assert said.startswith(f"40 of {count} segments")
    command = said.partition("`")[2].rstrip("`")
    where, limit = command.partition('--where "')[2].split('" --limit ')
    listed = json.loads(output("search", "--segments", "--where", where, "--limit", limit, "--json"))
    assert len(listed) == count and {row["episode_id"] for row in listed} == {many}
    assert [row["start_seconds"] for row in listed] == sorted(row["start_seconds"] for row in listed)
    assert len(json.loads(output("show", many, "--json"))["segments"]) == count
    other = next(episode for episode in opened.episodes if episode.episode_id not in (few, many))
    assert "segments" not in json.loads(output("show", other.episode_id, "--json"))
    assert not other.segments


def test_segments_are_found_by_words_and_by_a_filter_over_their_columns(
    segmented: Segmented, output: Output
) -> None:
    opened, few, many = segmented
    found = ("search", "--segments", "ball", "--output")
    rows = list(csv.DictReader(io.StringIO(output(*found, "csv"))))
    assert [(row["episode_id"], row["start_seconds"], row["text"]) for row in rows] == [
        (few, "1.25", "where is the ball?"),  # "where is the" are no words of the index: the shorter text
        (few, "0.0", "reach the ball"),
    ]
    table = output(*found, "table").splitlines()
    assert table[0].split() == ["episode", "start", "end", "style", "arm", "author", "text", "grade", "by"]
    where = "style = 'vqa' AND start_seconds < 2"
    assert [segment.text for segment in opened.search_segments("ball", where=where)] == ["where is the ball?"]
    assert [segment.style for segment in opened.search_segments("lift", where="author <> 'person'")] == [
        "plan",
        "plan",
    ]
    # Without words all of the filter, by episode and time; with them the best, and of equal ones the first.
    where = f"episode_id = '{many}' AND annotator = 'segment'"
    assert [segment.text for segment in opened.search_segments(where=where, limit=3)] == [
        f"step {number} of the work" for number in range(3)
    ]
    best = opened.search_segments("step 7", limit=5)
    assert [segment.text for segment in best] == ["step 7 of the work"] * 5
    assert [segment.start_seconds for segment in best] == sorted(segment.start_seconds for segment in best)
    # A search for episodes by words opens them where the segment is.
    (hit,) = opened.search("where is the ball?", by="captions", limit=1)
    assert (hit.episode_id, hit.seconds) == (few, 1.25)
    assert "nothing found" in output("search", "--segments", "elephant")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "a search for segments needs words or a filter"),
        (("ball", "--by", "frames"), "leave out --by, or --segments"),
        (("--where", "nothing = 1"), "no column named 'nothing'"),
        (("--where", "text = "), "the filter cannot be read"),
    ],
)
def test_what_finds_no_segments_is_one_line(
    segmented: Segmented, output: Output, arguments: tuple[str, ...], said: str
) -> None:
    message = output("search", "--segments", *arguments, status=2)
    if not arguments:
        with pytest.raises(RequestError, match="needs words or a filter"):
            segmented[0].search_segments(" ")
    assert said in message and message.startswith("ares search: ")


def test_a_set_is_made_of_the_episodes_that_have_some_segments(
    segmented: Segmented,
) -> None:
    opened, few, many = segmented
    assert list(opened.sets.create("balls", opened.search_segments("ball")).ids()) == [few]
    both = opened.search_segments(where="style IN ('vqa', 'style00')")
    assert list(opened.sets.create("both", both).ids()) == sorted([few, many])


def test_segments_become_a_set_of_spans_whose_bad_ones_cost_themselves(
    segmented: Segmented, output: Output, tmp_path: Path
) -> None:
    _, few, _ = segmented
    where = f"episode_id = '{few}' AND style = 'subtask'"
    made = output("set", "create", "parts", "--segments", "--where", where)
    assert made.startswith("set parts@1: ") and made.endswith(" spans of 1 episode\n")
    spans: Any = json.loads(output("set", "show", "parts", "--json"))
    assert spans["spans"] == len(spans["members"]) and spans["episodes"] == 1
    assert "lift it" in output("set", "show", "parts")
    lines = output("set", "show", "parts", "--ids").splitlines()
    assert len(lines) == spans["spans"] and any(
        line.startswith(f"{few} 1.000 2.500 lift it") for line in lines
    )
    assert f"{spans['spans']} spans" in output("set", "list")
    for option in (["--like", few], ["x.txt"], ["--by", "text"]):
        refused = output("set", "create", "no", "--segments", *option, status=2)
        assert f"leave out {option[0]}" in refused and refused.count("\n") == 1
    output("set", "create", "instants", "--segments", "--where", f"episode_id = '{few}'")
    difference: Any = json.loads(output("set", "diff", "parts", "instants", "--json"))
    assert difference["added"][0]["episode_id"] == few and difference["removed"] == []
    arguments = ("export", "instants", str(tmp_path / "out"), "--format", "jsonl")
    output(*arguments, status=1)
    failed = (tmp_path / "out" / "manifest.failed.jsonl").read_text().splitlines()
    assert failed and {json.loads(line)["reason"] for line in failed} == {"the span has fewer than two steps"}


def test_the_page_of_an_episode_cuts_thousands_of_segments(segmented: Segmented) -> None:
    opened, _, many = segmented
    cached_reads.use_workspace(opened, UserLimits(query_seconds=600))
    said = [caption.value for caption in draw("episode", {"episode": many}).caption]
    assert any("The first 500 of 5,041" in text for text in said)
