"""Takes pictures of every page of the dashboard: in light, in dark, and as wide as a phone; those of README, too.

.venv/bin/python scripts/page_images.py [--workspace FOLDER] [--only NAME ...] [--to docs/images/pages]

The workspace is that of the demo, which is made where the folder is new; it takes two minutes. Chromium is the one of
the tests.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import ares
from ares.errors import ModelError
from ares.jobs import FailureLog
from ares.review import QueueRequest
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from ares_app.demo import make_demo_settings, run_demo_job
from tests.app.dashboard.browser import QUIET, serve

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parent.parent
_SERVE = (
    "import sys; from ares.settings import Settings; from ares.workspace import open_workspace;"
    "from ares_app.dashboard import make_served_pages; from ares_app.demo import make_demo_settings;"
    "from ares_app.server.asgi import serve;"
    "serve(open_workspace(sys.argv[1], make_demo_settings(Settings())), make_served_pages(), port=0)"
)
# Width, height and pixels per CSS pixel; a page is taken down to its end, or so far.
_DESKTOP, _PHONE = (1400, 900, 1.0), (390, 844, 2.0)
_MOST_DESKTOP, _MOST_PHONE = 2000, 1700
_QUALITY = 65
# What README and the manual show beside their texts: the top of a page, in light.
_COVERS, _COVER_SIZE = ("browse", "episode"), (1400, 1000)
_SETTLE_MS = 900
# Whether every picture in sight has arrived, also those within components.
_HAS_IMAGES = """() => {
    const isBelow = (node) => node.getBoundingClientRect().top > innerHeight;
    const isThere = (node) =>
        (node.tagName !== "IMG" || node.complete || isBelow(node))
        && (!node.shadowRoot || [...node.shadowRoot.children].every(isThere))
        && [...node.children].every(isThere);
    return isThere(document.body);
}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A page, and what is done on it before the picture.

    Attributes:
        name: Beginning of the name of the file.
        path: Address of the page below that of the server.
        ready: Selector of what must be there.
        prepare: Clicks before the picture.
    """

    name: str
    path: str
    ready: str
    prepare: Callable[[Page], None] = lambda page: None


def main() -> None:
    """Make the workspace where it is new, and take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workspace", type=Path, default=Path("/tmp/curation"))
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "images" / "pages")
    parser.add_argument("--only", nargs="*", default=[])
    args = parser.parse_args()
    os.environ["LOGNAME"] = "ann"
    workspace = _open_demo(args.workspace)
    args.to.mkdir(parents=True, exist_ok=True)
    empty = ares.open(args.workspace.with_name("empty"), create=True)
    _take(workspace, [picture for picture in _pictures(workspace) if _is_chosen(picture, args.only)], args.to)
    _take(empty, [picture for picture in _EMPTY if _is_chosen(picture, args.only)], args.to)


def _is_chosen(picture: Picture, names: list[str]) -> bool:
    return not names or picture.name in names


def _open_demo(folder: Path) -> Workspace:
    if folder.exists():
        return open_workspace(str(folder), make_demo_settings(Settings()))
    workspace = open_workspace(str(folder), make_demo_settings(Settings()))
    run_demo_job(workspace, print)
    workspace.annotate("map", quiet=True)
    ids = sorted(workspace.stores.tables.episodes.ids())
    workspace.tag("blurred", where="instruction LIKE '%drawer%'")
    workspace.note("the gripper slips", where=f"episode_id = '{ids[0]}'")
    workspace.review.create(
        QueueRequest(name="captions", question="acceptable", person="ann", random_items=20)
    )
    workspace.sets.create("drawers", where="instruction LIKE '%drawer%'")
    workspace.sets.create("drawers", where="instruction LIKE '%drawer%' AND success")
    maker_id = next(
        key
        for key, producer in workspace.stores.annotations.producers().items()
        if producer.annotator == "caption"
    )
    error = ModelError("the model server did not answer in time", "http://127.0.0.1:8000/v1: 60 s")
    FailureLog(workspace.stores.annotations, f"caption/{maker_id}").record(dict.fromkeys(ids[:3], error), ())
    return workspace


def _pictures(workspace: Workspace) -> list[Picture]:
    episodes = workspace.stores.tables.episodes
    graded = min(episodes.ids("grade = 'not_acceptable'") or episodes.ids("caption IS NOT NULL"))
    failed, second, *_ = sorted(episodes.ids("dataset = 'metaworld_sawyer'"))
    return [
        Picture(name="browse", path="", ready=".card >> nth=23"),
        Picture(name="search", path="?q=open+the+drawer", ready=".corner.score >> nth=0"),
        Picture(name="select", path="?f.success=true", ready=".card >> nth=5", prepare=_select_and_tag),
        Picture(name="set", path="?q=drawer&words=drawer", ready=".card", prepare=_open_set_form),
        Picture(name="map", path="map", ready="canvas[data-points]"),
        Picture(name="episode", path=f"episode?episode={graded}&t=1.5", ready=".grid.small .card"),
        Picture(
            name="failure", path=f"episode?episode={failed}", ready=".grid.small .card", prepare=_show_failure
        ),
        Picture(name="compare", path=f"compare?a={failed}&b={second}", ready=".plot canvas"),
        Picture(name="find", path="", ready=".card >> nth=5", prepare=_find),
        Picture(name="quality", path="quality", ready=".st-key-quality-spread svg.marks"),
        Picture(name="review", path="review", ready="[data-verdict]"),
        Picture(name="jobs", path="jobs?job=annotate&names=motion", ready="h2", prepare=_plan),
        Picture(name="sets", path="sets?set=accepted", ready=".grid.small .card", prepare=_compare),
    ]


_EMPTY = [
    Picture(name="no-episodes", path="", ready="h2"),
    Picture(name="no-sets", path="sets", ready="h2"),
    Picture(name="no-map", path="map", ready="h2"),
    Picture(name="no-episode", path="episode", ready="[data-testid=stAlert]"),
    Picture(name="no-quality", path="quality", ready="h2"),
]


def _select_and_tag(page: Page) -> None:
    page.locator(".tick").nth(1).click()
    page.get_by_text("1 selected").wait_for()
    page.locator(".tick").nth(4).click(modifiers=["Shift"])
    page.get_by_text("4 selected").wait_for()
    page.get_by_role("button", name="Tags").click()


def _open_set_form(page: Page) -> None:
    page.get_by_role("button", name=re.compile("Make a set of")).click()
    page.get_by_label("Name of the set").fill("drawers-v2")


def _show_failure(page: Page) -> None:
    page.get_by_role("button", name="Try caption again").wait_for()


def _find(page: Page) -> None:
    page.keyboard.press("Control+k")
    page.get_by_role("dialog").get_by_role("combobox").fill("drawer")
    page.get_by_role("option").first.wait_for()


def _plan(page: Page) -> None:
    page.get_by_role("button", name="Plan").click()
    page.wait_for_timeout(2 * _SETTLE_MS)  # the plan before this one is still shown
    page.get_by_role("button", name="Start it").wait_for()


def _compare(page: Page) -> None:
    page.get_by_role("radio", name="Compare").click()
    select = page.get_by_label("Compare with")
    select.scroll_into_view_if_needed()
    page.wait_for_timeout(_SETTLE_MS)  # a list closes while the page scrolls
    select.click()
    page.get_by_role("option", name="drawers@2").click()
    page.get_by_text("episodes in both").wait_for()


def _take(workspace: Workspace, pictures: list[Picture], folder: Path) -> None:
    from playwright.sync_api import sync_playwright

    if not pictures:
        return
    chromium = os.environ.get("ARES_TEST_CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
    with serve(workspace, _SERVE) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=QUIET)
        for picture in pictures:
            for style in ("light", "dark", "phone"):
                image = _screenshot(browser, f"{address}/{picture.path}", picture, style)
                _save(image, folder / f"{picture.name}-{style}.webp")
                if style == "light" and picture.name in _COVERS:
                    _save_cover(image, folder.parent / f"{picture.name}.png")
        browser.close()


def _screenshot(browser: Browser, address: str, picture: Picture, style: str) -> bytes:
    width, height, scale = _PHONE if style == "phone" else _DESKTOP
    scheme: Literal["light", "dark"] = "dark" if style == "dark" else "light"
    page = browser.new_page(
        viewport={"width": width, "height": height}, device_scale_factor=scale, color_scheme=scheme
    )
    page.set_default_timeout(60_000)
    page.goto(address)
    page.locator(picture.ready).first.wait_for()
    picture.prepare(page)
    page.wait_for_timeout(_SETTLE_MS)
    # The page scrolls inside itself: a window as high as its content shows all of it.
    most = _MOST_PHONE if style == "phone" else _MOST_DESKTOP
    content = page.evaluate("document.querySelector('.stMainBlockContainer').scrollHeight")
    page.set_viewport_size({"width": width, "height": max(height, min(most, content))})
    page.mouse.move(1, 1)
    page.locator("[data-testid=stMain]").evaluate("main => main.scrollTo(0, 0)")
    page.wait_for_function(_HAS_IMAGES)
    page.wait_for_timeout(_SETTLE_MS)
    image = page.screenshot()
    page.close()
    return image


def _save(image: bytes, path: Path) -> None:
    from PIL import Image

    Image.open(io.BytesIO(image)).convert("RGB").save(path, quality=_QUALITY, method=6)
    print(f"{path} {path.stat().st_size // 1000} kB")


def _save_cover(image: bytes, path: Path) -> None:
    from PIL import Image

    top = Image.open(io.BytesIO(image)).convert("RGB").crop((0, 0, *_COVER_SIZE))
    top.quantize(256).save(path, optimize=True)
    print(f"{path} {path.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
