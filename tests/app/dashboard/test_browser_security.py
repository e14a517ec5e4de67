"""In a real browser: pages keep to their policy, paths are refused, uploads are searched by, users log in and out."""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from tests.app.dashboard.browser import open_tab, serve

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Response

_SERVE_WITH_PASSWORD = (
    "import sys; from ares.settings import Settings; from ares.workspace import open_workspace;"
    "from app.dashboard import make_served_pages; from app.server.asgi import serve;"
    "serve(open_workspace(sys.argv[1], Settings(app_password='s3cret')), make_served_pages(), host='0.0.0.0', port=0)"
)


@pytest.fixture(scope="module")
def shown(mapped_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """A copy of the mapped workspace with a set."""
    folder = tmp_path_factory.mktemp("shown") / "w"
    shutil.copytree(mapped_folder, folder)
    with open_workspace(str(folder), Settings()) as opened:
        opened.sets.create("all", sorted(opened.stores.tables.episodes.ids()), {})
        yield opened


@pytest.fixture(scope="module")
def mapped_address(shown: Workspace) -> Iterator[str]:
    with serve(shown) as address:
        yield address


def test_every_page_and_every_response_keeps_to_the_policy(
    browser: Browser, mapped_address: str, shown: Workspace
) -> None:
    """`open_tab` fails at the first report of the policy."""
    episode_id = min(shown.stores.tables.episodes.ids())
    marks = {
        "": ".card img",
        "map": "canvas[data-points]",
        f"episode?episode={episode_id}": ".player .camera video",
        "sets": ".st-key-sets-list td",
        "health": "[data-testid=stMetric]",
        "statistics": ".bar",
        "status": ".st-key-status-tables td",
    }
    responses: list[Response] = []
    with open_tab(browser, mapped_address) as tab:
        tab.on("response", lambda response: responses.append(response))
        for page, element in marks.items():
            tab.goto(f"{mapped_address}/{page}")
            tab.locator(element).first.wait_for(state="attached")
        own = [response for response in responses if response.url.startswith(mapped_address)]
        lacking = [response.url for response in own if "frame-ancestors 'none'" not in _policy(response)]
        assert not lacking
        assert len(own) > 20


def _policy(response: Response) -> str:
    return response.all_headers().get("content-security-policy", "")


def test_a_path_in_the_address_is_refused_and_an_uploaded_image_is_not(
    browser: Browser, mapped_address: str, tmp_path: Path
) -> None:
    from PIL import Image

    picture = tmp_path / "picture.png"
    Image.new("RGB", (32, 32), "red").save(picture)
    with open_tab(browser, mapped_address) as tab:
        for path in (picture, tmp_path / "missing.png"):
            tab.goto(f"{mapped_address}/?image={path}")
            tab.get_by_text("no image of this workspace has this name").wait_for()
        tab.goto(mapped_address)
        tab.locator(".card").first.wait_for()
        tab.get_by_role("button", name="Image").click()
        data = io.BytesIO(picture.read_bytes()).getvalue()
        image = {"name": "picture.png", "mimeType": "image/png", "buffer": data}
        tab.locator("input[type=file]").set_input_files(image)  # type: ignore[arg-type]
        tab.get_by_role("button", name="like the uploaded image").wait_for()
        assert re.search(r"image=upload%3A[0-9a-f]{32}", tab.url)


def test_users_log_in_by_a_form_and_out_by_a_link(browser: Browser, shown: Workspace) -> None:
    with serve(shown, _SERVE_WITH_PASSWORD) as listening:
        address = listening.replace("0.0.0.0", "127.0.0.1")
        # The form is the answer to a page that is refused.
        with open_tab(browser, address, refused=address) as tab:
            tab.goto(f"{address}/?f.success=true")
            tab.get_by_label("Password").fill("wrong")
            tab.get_by_role("button", name="Log in").click()
            tab.get_by_text("The password is wrong.").wait_for()
            tab.get_by_label("Password").fill("s3cret")
            tab.get_by_role("button", name="Log in").click()
            tab.get_by_text("2 of 4 episodes").wait_for()
            assert tab.url.endswith("/?f.success=true")
            (cookie,) = [cookie for cookie in tab.context.cookies() if cookie["name"] == "ares_login"]
            assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
            tab.get_by_role("link", name="Log out").click()
            tab.get_by_label("Password").wait_for()
            tab.goto(address)
            tab.get_by_label("Password").wait_for()
