"""Every page in a real browser, once: no error, nothing from elsewhere, and the policy on every response."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ares.workspace import Workspace
from ares_app.dashboard.page_list import PAGES
from tests.app.dashboard.browser import serve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page, Response


@pytest.fixture
def address(mapped: Workspace) -> Iterator[str]:
    mapped.sets.create("all", where="true")
    with serve(mapped) as served:
        yield served


def test_every_page_opens_without_an_error_and_keeps_to_its_policy(
    page: Page, address: str, mapped: Workspace
) -> None:
    """`open_tab` fails at the first error of a page, request to elsewhere, or report of the policy."""
    first, second, *_ = sorted(mapped.stores.tables.episodes.ids())
    shown = {
        "browse": ("", ".card img"),
        "map": ("map", "canvas[data-points='4']"),
        "quality": ("quality", ".st-key-quality-spread svg.marks"),
        "episode": (f"episode?episode={first}", ".player .camera video"),
        "compare": (f"compare?a={first}&b={second}", ".player .camera video"),
        "review": ("review", "h2"),
        "sets": ("sets", ".st-key-sets-list-table canvas"),
        "jobs": ("jobs", "h2"),
    }
    assert shown.keys() == PAGES.keys()
    responses: list[Response] = []
    page.on("response", lambda response: responses.append(response))
    for path, element in shown.values():
        page.goto(f"{address}/{path}")
        page.locator(element).first.wait_for(state="attached")
    own = [response for response in responses if response.url.startswith(address)]
    policies = {response.url: response.all_headers().get("content-security-policy", "") for response in own}
    assert len(own) > 20
    assert [url for url, policy in policies.items() if "frame-ancestors 'none'" not in policy] == []
