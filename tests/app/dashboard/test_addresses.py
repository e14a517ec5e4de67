"""What an address says and a page does not know is one line with what would be right, and nothing else is shown."""

from __future__ import annotations

from urllib.parse import parse_qs

import pytest
from streamlit.testing.v1 import AppTest

from ares.workspace import Workspace
from ares_app.dashboard import cached_reads
from ares_app.dashboard.view_state import AddressError, view_from_params
from tests.app.drawn import draw

_WRONG = {
    "f.success=maybe": ["success is true or false", "'maybe'"],
    "f.num_steps=many": ["num_steps is a number and takes a range", "~range:10..20"],
    "f.dataset=~range:1..2": ["dataset is no number", "~missing"],
    "f.num_steps=~range:1..two": ["a range cannot be read", "~range:LOW..HIGH"],
    "f.num_steps=~range:9..1": ["a range cannot be read", "'~range:9..1'"],
    "f.num_steps=~range:..": ["a range cannot be read", "'~range:..'"],
    "f.num_steps=~range:5": ["a range cannot be read", "'~range:5'"],
    "f.num_steps=~range:nan..5": ["a range cannot be read", "nan"],
    "f.num_steps=~range:1..2&f.num_steps=~range:3..4": ["num_steps has 2 ranges", "give one"],
    "f.dataset=~gone": ["the filter of dataset cannot be read", "~missing"],
    "f.colour=red": ["no column 'colour'", "num_steps"],
    "sort=colour": ["no column 'colour' to sort by", "num_steps"],
    "page=two": ["the number of a page cannot be read", "pages count from 1"],
    "page=0": ["the number of a page cannot be read", "'0'"],
    "page=1&page=2": ["the address has page 2 times", "give it once"],
    "cut=0.5": ["a cut belongs to a search", "q, like or image"],
    "q=drawer&cut=2": ["a cut cannot be read", "0 to 1"],
    "like=0123456789abcdef": ["0123456789abcdef"],
    "image=/etc/passwd": ["no image of this workspace has this name"],
    "q=drawer&by=telepathy": ["telepathy"],
    "by=telepathy": ["telepathy"],
    "where=nonsense+%3D+1": ["nonsense"],
    "show=mosaic": ["episodes cannot be shown as"],
    "show=table&columns=nothing": ["no column 'nothing' to show"],
    "view=mine": ["this page reads no parameter 'view'", "words"],
    "unknown_page=nope": [
        "there is no page 'nope'",
        "Browse, Map, Quality, Episode, Compare, Review, Sets, Jobs",
    ],
}
_WRONG_ELSEWHERE = {
    "map?f.success=maybe": ["success is true or false"],
    "map?sort=colour": ["no column 'colour' to sort by"],
    "map?region=1+2%2C3": ["a region of the map cannot be read"],
    "compare?group=nothing": ["there is no group 'nothing' of near duplicates"],
    "compare?a=zzzz": ["no episode 'zzzz'"],
    "compare?a=EPISODE&maker_a=nobody": ["no producer 'nobody'"],
    "compare?a=EPISODE&t=soon": ["a second cannot be shown"],
    "sets?set=nope": ["there is no set 'nope'", "there are"],
    "quality?view=mine": ["this page reads no parameter 'view'", "group, number"],
    "quality?number=nothing": ["no column 'nothing' of numbers", "num_steps"],
    "jobs?view=mine": ["this page reads no parameter 'view'", "it reads: job, names"],
    "episode?episode=nope": ["nope"],
    "episode?episode=0123456789abcdef": ["0123456789abcdef"],
    "episode?episode=EPISODE&at=first": ["a place in a list cannot be read", "places count from 0"],
    "episode?episode=EPISODE&t=soon": ["a second cannot be shown", "'soon'"],
    "episode?episode=EPISODE&t=9999": ["a second cannot be shown", "this episode has 0 to"],
    "episode?episode=EPISODE&t=nan": ["a second cannot be shown", "'nan'"],
    "episode?episode=EPISODE&f.success=maybe": ["success is true or false"],
    "episode?episode=EPISODE&episode=EPISODE": ["the address has episode 2 times"],
}


def _draw(address: str) -> AppTest:
    name, _, query = address.partition("?")
    return draw(name, parse_qs(query, keep_blank_values=True))


@pytest.mark.parametrize("address", [*(f"browse?{query}" for query in _WRONG), *_WRONG_ELSEWHERE])
def test_what_an_address_says_and_no_page_knows_is_one_line(address: str, workspace: Workspace) -> None:
    cached_reads.use_workspace(workspace)
    episode_id = min(workspace.stores.tables.episodes.ids())
    app = _draw(address.replace("EPISODE", episode_id))
    said = [error.value.replace("\\", "") for error in app.error]
    texts = _WRONG.get(address.removeprefix("browse?"), _WRONG_ELSEWHERE.get(address, []))
    assert len(said) == 1 and texts and all(text in said[0] for text in texts), said
    # No episode, no player, and no other set or dataset is shown below it.
    shown = " ".join(str(component.proto) for component in app.get("bidi_component"))
    assert '"cards"' not in shown and '"cameras"' not in shown
    assert not app.metric and not any("**25 of 25" in text.value for text in app.markdown)


def test_the_button_below_the_line_opens_the_page_without_it(workspace: Workspace) -> None:
    cached_reads.use_workspace(workspace)
    app = _draw("browse?page=two&f.dataset=video")
    app.button(key="address.without").click().run()
    assert not app.error
    assert any("12 of 25 episodes" in text.value for text in app.markdown)


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("browse?page=7", "There is no page 7 of these episodes. This is the last one, 2."),
        ("browse?f.dataset=nope", "No episode has dataset 'nope'; there are: metaworld_sawyer, video"),
        ("map?f.dataset=video&f.robot=nope", "No episode has robot 'nope'"),
        ("quality?f.dataset=nope", "No episode has dataset 'nope'"),
        ("episode?episode=EPISODE&at=9999", "This episode is not at place 10,000 of the list"),
    ],
)
def test_what_is_shown_in_place_of_what_was_asked_for_is_said(
    address: str, text: str, mapped: Workspace, workspace: Workspace
) -> None:
    shown = mapped if address.startswith("map") else workspace
    cached_reads.use_workspace(shown)
    app = _draw(address.replace("EPISODE", min(shown.stores.tables.episodes.ids())))
    said = " ".join(element.value for element in (*app.warning, *app.caption)).replace("\\", "")
    assert text in said
    assert not app.error


def test_a_view_that_a_page_has_written_is_read() -> None:
    params = {
        "f.num_steps": ["~range:3..", "~missing"], "f.dataset": ["a", "~~b"], "q": ["x"], "cut": ["0.25"],
        "page": ["3"],
    }  # fmt: skip
    view = view_from_params(params)
    assert (view.page, view.cut, view.filters["dataset"].values) == (3, 0.25, ("a", "~b"))
    assert (view.filters["num_steps"].low, view.filters["num_steps"].missing) == (3.0, True)
    with pytest.raises(AddressError, match="a range cannot be read"):
        view_from_params({"f.num_steps": ["~range:x..2"]})
