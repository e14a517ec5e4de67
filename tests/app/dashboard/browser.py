"""A dashboard in a separate process, and tabs of a real browser that tolerate no error."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ares.workspace import Workspace

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page

QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Tabs of a site share a process, which has compiled the scripts of the page once.
    "--renderer-process-limit=1",
]
# Long for a machine with much else to do; what does not come until then never does.
WAIT_MS = 120_000
AXE = Path(__file__).parents[3] / "node_modules" / "axe-core" / "axe.min.js"
# What axe calls serious, once nothing is faded that is being renewed. Of the two sliders of a range only the knobs, 24
# pixels wide, take the pointer.
VIOLATIONS = """async (script) => {
    if (!window.axe) new Function(script)();
    const isFaded = () => document.querySelector("[data-stale=true]") !== null;
    for (let waits = 0; waits < 100 && isFaded(); waits++) await new Promise((done) => setTimeout(done, 100));
    const { violations } = await axe.run(document,
        { resultTypes: ["violations"], rules: { "target-size": { enabled: true } } });
    return violations.filter(({ impact }) => ["serious", "critical"].includes(impact)).flatMap(({ id, nodes }) =>
        nodes.filter((node) => id !== "target-size" || !node.html.includes('type="range"'))
            .map((node) => `${id}: ${node.html.slice(0, 200)}`));
}"""
# Words that look like code in what is visible, code blocks and fields apart: snake_case, CODES, hex ids, times of the
# log and JSON. Names of the data, and what its users wrote, are no code of ours.
CODE_WORDS = r"""(names) => {
    const code = new RegExp([
        "\\b[a-z][a-z0-9]*(?:_[a-z0-9]+)+\\b", "\\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\\b",
        "\\b(?!LDLJ|SPARC|UMAP|ARES|LIKE)[A-Z]{4,}\\b", "\\b[A-Z]\\d{3}\\b", "\\d\\dT\\d\\d:", "[{}]",
        "\\b(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{8,}\\b",
    ].join("|"), "g");
    const found = [];
    const read = (node) => {
        if (node.nodeType === Node.TEXT_NODE) {
            const text = names.reduce((rest, name) => rest.replaceAll(name, ""), node.textContent);
            const parent = node.parentElement;
            const isIcon = parent && getComputedStyle(parent).fontFamily.includes("Material");
            if (!isIcon && parent?.checkVisibility() !== false) found.push(...(text.match(code) ?? []));
        }
        if (node.matches?.("style, script, code, pre, dd, [data-testid=stJson]")) return;
        if (node.shadowRoot) read(node.shadowRoot);
        node.childNodes.forEach(read);
    };
    read(document.body);
    return [...new Set(found)];
}"""
# How many controls are in sight.
CONTROLS = """() => {
    const selector = "a[href], button, input, select, textarea, summary, [role=slider], [role=combobox]";
    let count = 0;
    const read = (node) => {
        const box = node.getBoundingClientRect?.();
        const isShown = box && box.width > 1 && box.height > 1 && box.top < innerHeight && box.bottom > 0;
        if (node.matches?.(selector) && !node.disabled && isShown && node.checkVisibility()) count++;
        if (node.shadowRoot) read(node.shadowRoot);
        for (const child of node.children ?? []) read(child);
    };
    read(document.body);
    return count;
}"""
SERVE_COMMAND = (
    "import sys; from ares.settings import Settings; from ares.workspace import open_workspace;"
    "from ares_app.dashboard import make_served_pages; from ares_app.server.asgi import serve;"
    "serve(open_workspace(sys.argv[1], Settings()), make_served_pages(), port=0)"
)


@contextmanager
def serve(workspace: Workspace, command: str = SERVE_COMMAND) -> Iterator[str]:
    """Serve a workspace in a separate process, which prints no traceback; the address of the dashboard."""
    server = subprocess.Popen(
        [sys.executable, "-c", command, workspace.path], stderr=subprocess.PIPE, text=True, bufsize=1
    )
    try:
        assert server.stderr is not None
        lines = iter(server.stderr.readline, "")
        yield next(match[0] for line in lines if (match := re.search(r"http://\S+", line)))
    finally:
        server.terminate()
        _, printed = server.communicate(timeout=300)
    assert "(most recent call last)" not in printed, printed


@contextmanager
def open_tab(browser: Browser, address: str, refused: str = "") -> Iterator[Page]:
    """A tab that must load nothing from elsewhere, raise no error, and log none, also none of its headers' policy.

    Args:
        browser: The browser.
        address: The address of the dashboard.
        refused: Part of the addresses that the server may refuse; the browser logs each as an error.
    """
    from playwright.sync_api import expect

    expect.set_options(timeout=WAIT_MS)
    context = _free_context(browser)
    tab = context.new_page()
    tab.set_default_timeout(WAIT_MS)
    foreign: list[str] = []
    errors: list[str] = []
    tab.on(
        "request", lambda request: foreign.append(request.url) if not _is_own(request.url, address) else None
    )
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.on("console", lambda line: errors.append(line.text) if _is_error(line, refused) else None)
    yield tab
    _leave(context, tab, address, is_kept=context is browser.contexts[0])
    assert foreign == [], foreign
    assert errors == [], errors


def visit(page: Page, url: str) -> None:
    """Open an address, and wait until all of the page is drawn, as a person does before the first click."""
    page.goto(url)
    wait_until_drawn(page)


def wait_until_drawn(page: Page) -> None:
    """Wait until the script of the page has ended: until then what is clicked may be drawn again, or move."""
    page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for()


def choose(page: Page, label: str, option: str | re.Pattern[str]) -> None:
    """Choose from a list, again until it closes: an open one does when the page scrolls, and is redrawn by a run."""
    from playwright.sync_api import TimeoutError

    select, choice = page.get_by_role("combobox", name=label), page.get_by_role("option", name=option)
    select.scroll_into_view_if_needed()
    for _ in range(20):
        with suppress(TimeoutError):
            if not choice.is_visible():
                select.click(timeout=5_000)
            choice.click(timeout=5_000)
            choice.wait_for(state="hidden", timeout=5_000)
            return
    raise AssertionError(f"{label} offers no {option}")


def act_on_row(page: Page, key: str, row: int = 0) -> None:
    """Do with the keyboard what the button of a row of a table does."""
    canvas = page.locator(f".st-key-{key}-table canvas").first
    canvas.wait_for()
    wait_until_drawn(page)
    canvas.focus()
    for _ in range(row):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Shift+Space")


def _free_context(browser: Browser) -> BrowserContext:
    """The first one, which has the scripts of the page, if no test has a tab in it; else one of another person."""
    if not browser.contexts:
        # An empty tab stays: with the last tab of a context its process ends, and what that has compiled.
        _new_context(browser).new_page()
    first = browser.contexts[0]
    return first if len(first.pages) == 1 else _new_context(browser)


def _new_context(browser: Browser) -> BrowserContext:
    return browser.new_context(viewport={"width": 1400, "height": 900})


def _leave(context: BrowserContext, tab: Page, address: str, is_kept: bool) -> None:
    """Close a tab; in a context that is kept, the next one finds the cache and nothing else of this one."""
    stored = {"origin": address, "storageTypes": "cookies,local_storage,indexeddb,cache_storage"}
    context.new_cdp_session(tab).send("Storage.clearDataForOrigin", stored)
    tab.close()
    context.clear_cookies()
    context.clear_permissions()
    if not is_kept:
        context.close()


def _is_error(line: ConsoleMessage, refused: str) -> bool:
    is_refusal = line.text.startswith("Failed to load resource") and refused in line.location["url"]
    # A socket that opens again between a log-out and the next page is refused, too.
    is_refusal |= refused.replace("http", "ws") in line.text and line.text.endswith("response code: 403")
    return "Security Policy" in line.text or (line.type == "error" and not (refused and is_refusal))


def _is_own(url: str, address: str) -> bool:
    return url.startswith((address, address.replace("http", "ws"), "data:", "blob:"))
