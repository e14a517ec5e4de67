"""Log-in by an identity provider or a password, in a real browser: there and back, an act in its name, and out."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest
from playwright.sync_api import expect

from ares.store import read_history
from ares.workspace import Workspace
from tests.app.dashboard.browser import SERVE_COMMAND, open_tab, serve

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow
_ADA = "ada@lab.example"
_CLIENT = {"client_id": "ares", "client_secret": "of the test"}


class _Provider(BaseHTTPRequestHandler):
    """The smallest OpenID provider: one person, codes that count once, and tokens of RS256."""

    key: Any
    issuer: str
    codes: dict[str, dict[str, str]]

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        if address.path == "/authorize":
            code = f"code{len(self.codes)}"
            self.codes[code] = query
            back = f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"
            self._answer("text/html", f'<a href="{back}">Continue as Ada</a>'.encode())
        elif address.path == "/jwks":
            self._answer_json({"keys": [self.key.as_dict(private=False)]})
        else:
            self._answer_json(
                {
                    "issuer": self.issuer,
                    "token_endpoint": f"{self.issuer}/token",
                    "authorization_endpoint": f"{self.issuer}/authorize",
                    "jwks_uri": f"{self.issuer}/jwks",
                    "code_challenge_methods_supported": ["S256"],
                    "id_token_signing_alg_values_supported": ["RS256"],
                }
            )

    def do_POST(self) -> None:
        from joserfc import jwt

        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        begun = self.codes.pop(form["code"][0])
        now = int(time.time())
        claims = {"iss": self.issuer, "sub": "7", "aud": "ares", "iat": now, "exp": now + 300}
        person = {"nonce": begun["nonce"], "email": _ADA, "email_verified": True, "name": "Ada"}
        token = jwt.encode({"alg": "RS256", "kid": self.key.kid}, {**claims, **person}, self.key)
        self._answer_json({"access_token": "a", "token_type": "Bearer", "id_token": token})

    def _answer_json(self, document: dict[str, Any]) -> None:
        self._answer("application/json", json.dumps(document).encode())

    def _answer(self, content_type: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *values: Any) -> None:
        pass


@pytest.fixture
def issuer() -> Iterator[str]:
    """The provider's address; another site than the dashboard's, whose cookies it must not need."""
    from joserfc.jwk import RSAKey

    class Provider(_Provider):
        key = RSAKey.generate_key(2048, {"use": "sig"}, auto_kid=True)
        codes: dict[str, dict[str, str]] = {}  # noqa: RUF012

    with ThreadingHTTPServer(("127.0.0.1", 0), Provider) as server:
        Provider.issuer = f"http://localhost:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Provider.issuer
        server.shutdown()


@pytest.fixture
def address(mapped: Workspace, issuer: str, tmp_path: Path) -> Iterator[str]:
    """A dashboard of a user with secrets for Streamlit."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "redirect_uri": f"http://127.0.0.1:{port}/oauth2callback",
        "cookie_secret": "a secret of more than thirty-two characters",
        **_CLIENT,
        "server_metadata_url": f"{issuer}/.well-known/openid-configuration",
    }
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
    (tmp_path / ".streamlit").mkdir()
    (tmp_path / ".streamlit" / "secrets.toml").write_text(f"[auth]\n{lines}")
    command = SERVE_COMMAND.replace("port=0", f"port={port}")
    command = f"import os; os.environ['HOME'] = {str(tmp_path)!r}; {command}"
    with serve(mapped, command) as served:
        yield served


def test_a_person_logs_in_at_the_provider_acts_and_logs_out(
    page: Page, address: str, issuer: str, mapped: Workspace
) -> None:
    page.goto(f"{address}/?f.dataset=video")
    page.get_by_role("link", name="Log in").click()
    assert page.url.startswith(issuer)
    page.get_by_role("link", name="Continue as Ada").click()
    page.locator(".tick").first.check()
    assert page.url == f"{address}/?f.dataset=video", "a log-in leads to the page that was asked for"
    expect(page.get_by_text(f"as {_ADA}")).to_be_visible()
    page.get_by_role("button", name="Edit tags").click()
    page.get_by_label("New tag").fill("late")
    page.get_by_role("button", name="Add the tag").click()
    expect(page.get_by_text("Tag late added to 1 episode")).to_be_visible()
    post = "async url => (await fetch(url, {method: 'POST'})).status"
    assert page.evaluate(post, f"{address}/api/undo?person=Eve") == 403
    assert mapped.stores.tables.episodes.ids("array_has(tags, 'late')")
    assert [action.person for action in read_history(mapped.stores.annotations).actions] == [_ADA]

    page.goto(address)
    cookies = "; ".join(f"{cookie['name']}={cookie['value']}" for cookie in page.context.cookies(address))
    copy = {"Cookie": cookies}
    assert httpx2.get(f"{address}/api/episodes", headers=copy).status_code == 200
    page.get_by_role("link", name="Log out").click()
    expect(page.get_by_role("link", name="Log in")).to_be_visible()
    assert not [cookie for cookie in page.context.cookies(address) if "user" in cookie["name"]]
    # A copy of the cookie is worth nothing.
    assert httpx2.get(f"{address}/api/episodes", headers=copy).status_code == 403


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    # Whoever is not logged in is refused, and the provider is elsewhere.
    with open_tab(browser, "http://", refused="http://") as tab:
        yield tab


def test_users_log_in_by_a_form_and_out_by_a_link(browser: Browser, mapped: Workspace) -> None:
    command = SERVE_COMMAND.replace("Settings()", "Settings(app_password='s3cret')")
    command = command.replace("port=0", "host='0.0.0.0', port=0")
    with serve(mapped, command) as listening:
        address = listening.replace("0.0.0.0", "127.0.0.1")
        # The form is the answer to a page that is refused.
        with open_tab(browser, address, refused=address) as tab:
            tab.goto(f"{address}/?f.success=true")
            tab.get_by_label("Password").fill("s3cret")
            tab.get_by_role("button", name="Log in").click()
            tab.get_by_text("2 of 4 episodes").wait_for()
            assert tab.url.endswith("/?f.success=true")
            tab.get_by_role("link", name="Log out").click()
            tab.get_by_label("Password").wait_for()
