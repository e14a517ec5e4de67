"""Log-in by an identity provider: who is not logged in gets nothing, and the secrets are checked at the start."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import itsdangerous
import pytest
import streamlit as st
from streamlit import config

from ares.errors import RequestError
from ares.imports import install_command
from ares.settings import Settings
from ares.workspace import new_workspace
from ares_app.dashboard import make_served_pages
from ares_app.server import serve
from ares_app.server.identity_login import IdentityLoginMiddleware, IdentityProvider, read_identity_provider
from ares_app.server.login import MAX_AGE_SECONDS
from ares_app.server.protection import PERSON_HEADER
from tests.app.server.asgi_client import Messages, answer_ok, headers_of, send_request, status_of

_SECRET = "a secret of more than thirty-two characters"
_PROVIDER = IdentityProvider("default", _SECRET, "https://ares.example.org")
_ADA = {
    "is_logged_in": True,
    "origin": _PROVIDER.origin,
    "email": "ada@lab.example",
    "email_verified": True,
    "name": "Ada",
    "nonce": "n",
}


def sign(name: str, text: str, secret: str = _SECRET) -> str:
    """A cookie as Streamlit signs it."""
    return f"{name}={itsdangerous.URLSafeTimedSerializer(secret, salt=name).dumps(text)}"


def cookie(secret: str = _SECRET, parts: int = 1, **claims: Any) -> tuple[str, str]:
    """The header of a browser for which Streamlit has signed what a token states."""
    text, name = json.dumps({**_ADA, **claims}), "_streamlit_user"
    size = -(-len(text) // parts)
    cut = {f"{name}_{n + 1}": text[n * size : (n + 1) * size] for n in range(parts)}
    texts = {name: f"chunks-{parts}", **cut} if parts > 1 else {name: text}
    return "cookie", "; ".join(sign(*item, secret) for item in texts.items())


def person_of(header: tuple[str, str], kind: str = "http", provider: IdentityProvider = _PROVIDER) -> str:
    """The name that the application gets; "" where it gets no request."""
    got: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        got.extend(value.decode() for name, value in scope["headers"] if name == PERSON_HEADER.encode())
        await answer_ok(scope, receive, send)

    answer = send_request(IdentityLoginMiddleware(app, provider), kind, [header], "/api/episodes")
    assert bool(got) == (status_of(answer) == 200) and (got or status_of(answer) in {403, 1008})
    return "".join(got)


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_a_request_acts_in_the_name_that_the_token_states(kind: str) -> None:
    assert person_of(cookie(), kind) == "ada@lab.example"
    assert person_of(cookie(email="", name="Zoë"), kind) == "Zoë"
    assert person_of(cookie(parts=3), kind) == "ada@lab.example", "in several cookies"
    assert person_of(cookie(email_verified="true"), kind) == "ada@lab.example", "as some providers write it"


def test_nobody_else_gets_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    name, signed = cookie()
    wrong = {
        "none": (name, ""),
        "no cookie at all": (name, "; =;\xff"),
        "forged": cookie("another secret of more than 32 characters"),
        "changed": (name, signed[:40] + ("A" if signed[40] != "A" else "B") + signed[41:]),
        "of another cookie": (name, sign("x", json.dumps(_ADA)).replace("x=", "_streamlit_user=", 1)),
        "with a part that is missing": (name, cookie(parts=3)[1].rpartition(";")[0]),
        "with a part of another cookie": (name, cookie(parts=2)[1].replace("_user_2=", "_user_3=")),
        "of another address": cookie(origin="https://elsewhere.example.org"),
        "not logged in": cookie(is_logged_in=False),
        "without a name": cookie(email="", name=""),
        "with a name like an e-mail": cookie(email="", name="ada@lab.example"),
        "with an e-mail that is not verified": cookie(email_verified=False),
        "with an e-mail of which that is not said": cookie(email_verified=None),
        "with another line": cookie(email="ada\nx"),
        "too long": cookie(email="a" * 101),
    }
    assert {what: person_of(header) for what, header in wrong.items()} == dict.fromkeys(wrong, "")
    now = itsdangerous.TimestampSigner.get_timestamp
    monkeypatch.setattr(
        itsdangerous.TimestampSigner, "get_timestamp", lambda self: now(self) + int(MAX_AGE_SECONDS) + 60
    )
    assert person_of((name, signed)) == "", "it has expired"


def test_a_browser_is_led_to_the_provider_and_back_to_the_page() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 302, "headers": [(b"location", b"/")]})

    middleware = IdentityLoginMiddleware(app, _PROVIDER)
    html = ("accept", "text/html,*/*")
    page = send_request(middleware, "http", [html], "/jobs", query="job=check")
    assert status_of(page) == 401
    assert b'href="https://ares.example.org/api/login?next=%2Fjobs%3Fjob%3Dcheck"' in page[1]["body"]
    for kept, landed in (
        ("%2Fjobs%3Fjob%3Dcheck", "/jobs?job=check"),
        ("%2F%2Fevil.example", "/"),
        ("", "/"),
    ):
        back = send_request(middleware, "http", [("cookie", f"ares_next={kept}")], "/oauth2callback")
        assert headers_of(back)["location"] == landed
    for claims in ({"email": "", "name": ""}, {"email_verified": False}):
        nameless = send_request(middleware, "http", [html, cookie(**claims)])
        assert (status_of(nameless), b"no e-mail with email_verified" in nameless[1]["body"]) == (401, True)


def test_a_provider_that_verifies_need_not_say_so_of_each_e_mail() -> None:
    verifying = replace(_PROVIDER, verifies_email=True)
    silent = {name: value for name, value in _ADA.items() if name != "email_verified"}
    header = ("cookie", sign("_streamlit_user", json.dumps(silent)))
    assert person_of(header) == "", "as Microsoft Entra leaves it out"
    assert person_of(header, provider=verifying) == "ada@lab.example"
    assert person_of(cookie(email_verified=False), provider=verifying) == "", (
        "it says that nobody has checked"
    )


def test_a_log_out_ends_copies_of_the_cookie() -> None:
    middleware = IdentityLoginMiddleware(answer_ok, _PROVIDER)
    name, signed = cookie()

    def log_out(*headers: tuple[str, str]) -> Messages:
        return send_request(middleware, "http", [(name, signed), *headers], "/auth/logout")

    assert status_of(log_out(("sec-fetch-site", "cross-site"))) == 403, (
        "a page of another site logs nobody out"
    )
    assert status_of(send_request(middleware, "http", [(name, signed)])) == 200
    assert headers_of(send_request(middleware, "http", path="/api/logout"))["location"] == "/auth/logout"
    log_out(("sec-fetch-site", "same-origin"))
    assert status_of(send_request(middleware, "http", [(name, signed)])) == 403
    assert status_of(send_request(middleware, "http", [cookie(nonce="of the next log-in")])) == 200


_AUTH = {
    "redirect_uri": "https://ares.example.org/oauth2callback",
    "cookie_secret": _SECRET,
    "client_id": "ares",
    "client_secret": "s",
    "server_metadata_url": "https://login.example.org/.well-known/openid-configuration",
}


def write_secrets(folder: Path, **changes: str) -> None:
    """Put these secrets for Streamlit into a folder."""
    lines = "".join(f"{name} = {value!r}\n" for name, value in {**_AUTH, **changes}.items() if value)
    (folder / ".streamlit").mkdir(parents=True)
    (folder / ".streamlit" / "secrets.toml").write_text(f"LD_PRELOAD = '/tmp/x.so'\n[auth]\n{lines}")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with that of the start and the home of the user; nothing was read before and nothing is kept."""
    (tmp_path / "home").mkdir()
    (tmp_path / "start").mkdir()
    monkeypatch.chdir(tmp_path / "start")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(st, "secrets", type(st.secrets)())
    monkeypatch.setattr(config, "get_config_files", config.get_config_files)
    return tmp_path


def test_the_secrets_of_the_user_say_who_logs_people_in(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read_identity_provider() is None
    write_secrets(folder / "home")
    provider = replace(_PROVIDER, source=str(folder / "home" / ".streamlit" / "secrets.toml"))
    assert read_identity_provider() == provider
    assert "LD_PRELOAD" not in os.environ, "what a job starts would get it"
    (folder / "start" / ".streamlit").symlink_to(folder / "home" / ".streamlit")
    assert read_identity_provider() == provider, "the same file"
    monkeypatch.chdir(folder / "home")
    assert read_identity_provider() == provider


@pytest.mark.parametrize(
    "text",
    ["[auth]", "auth = {}", "= broken\n[auth.google]", "x = 1\n auth.client_id = 'x'", "\xff\n[ 'auth' ]"],
)
@pytest.mark.parametrize("has_own", [True, False])
def test_no_server_starts_in_a_folder_that_would_say_who_logs_in(
    text: str, has_own: bool, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if has_own:
        write_secrets(folder / "home")
    stranger = folder / "start" / ".streamlit" / "secrets.toml"
    stranger.parent.mkdir()
    stranger.write_bytes(text.encode("latin-1"))
    with pytest.raises(RequestError) as caught:
        serve(new_workspace(folder / "w", Settings()), make_served_pages(), port=0)
    own = folder / "home" / ".streamlit" / "secrets.toml"
    assert str(stranger) in str(caught.value) and f"move it to {own}" in str(caught.value)
    stranger.write_text("password = 'of an app'\n")
    (stranger.parent / "config.toml").write_text("[server]\nbaseUrlPath = 'x'\n")
    assert (read_identity_provider() is not None) is has_own
    assert capsys.readouterr().err.splitlines()[:2] == [
        f"{stranger.parent / name} is ignored: only {own.parent / name} is read"
        for name in ("config.toml", "secrets.toml")
    ]


def test_the_user_may_name_another_file_of_secrets(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_secrets(folder / "etc")
    file = folder / "etc" / ".streamlit" / "secrets.toml"
    get_option, files = config.get_option, [str(file)]
    monkeypatch.setattr(
        config, "get_option", lambda name: files if name == "secrets.files" else get_option(name)
    )
    monkeypatch.chdir(folder / "etc")
    assert read_identity_provider() == replace(_PROVIDER, source=str(file)), "also below the current folder"
    files[:] = [".streamlit/secrets.toml"]
    with pytest.raises(RequestError, match=r"without its whole path: \.streamlit/secrets\.toml"):
        read_identity_provider()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"client_secret": ""}, "client_secret"),
        ({"cookie_secret": "xxx"}, "fewer than 32 characters"),
        ({"redirect_uri": "https://ares.example.org/"}, "/oauth2callback"),
        ({"redirect_uri": "http://localhost:{port}/oauth2callback"}, "{port}"),
        ({"redirect_uri": "https://[::1/oauth2callback"}, "cannot be read: 'https://[::1/oauth2callback'"),
        ({"redirect_uri": "https://ares.example.org:99999/oauth2callback"}, "Port out of range"),
        ({"redirect_uri": "https:///oauth2callback"}, "is not the address of the dashboard"),
        ({"": "=="}, "cannot be read"),
        ({"provider_verifies_email": "yes"}, "neither true nor false: 'yes'"),
    ],
)
def test_what_is_wrong_with_the_secrets_is_said_in_one_line(
    changes: dict[str, str], words: str, folder: Path
) -> None:
    write_secrets(folder / "home", **changes)
    with pytest.raises(RequestError) as caught:
        read_identity_provider()
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_without_the_library_one_line_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_secrets(folder / "home")
    monkeypatch.setitem(sys.modules, "authlib", None)
    with pytest.raises(RequestError) as caught:
        read_identity_provider()
    reason = f"authlib is not installed, and [auth] of {folder}/home/.streamlit/secrets.toml needs it"
    assert str(caught.value) == f"{reason}: {install_command('ares-curation[login]')}"


@pytest.mark.parametrize("settings", [{"trusted_proxies": ("10.0.0.2",)}, {"app_password": "s3cret"}])
def test_only_one_thing_says_who_somebody_is(settings: dict[str, Any], folder: Path) -> None:
    write_secrets(folder / "home")
    shown = new_workspace(folder / "w", Settings(**settings))
    with pytest.raises(RequestError, match=r"\[auth\] of /.*/secrets.toml alone"):
        serve(shown, make_served_pages(), port=0)
