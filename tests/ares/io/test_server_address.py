"""The address of a server is read before anything is sent, and what is wrong with it is said."""

from __future__ import annotations

import pytest

from ares.io import read_server_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("http://localhost:8000/v1", ("http", "localhost", 8000)),
        ("https://Models.Example/v1", ("https", "models.example", None)),
        ("http://user:hidden@[::1]:80", ("http", "::1", 80)),
        ("10.0.0.2:6379", ("", "10.0.0.2", 6379)),
        ("auto", ("", "auto", None)),
        ("ray://", ("ray", "", None)),
        ("", ("", "", None)),
    ],
)
def test_an_address_is_read(text: str, address: tuple[str, str, int | None]) -> None:
    assert read_server_address(text) == address


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("http://localhost:99999/v1", "Port out of range 0-65535"),
        ("http://localhost:x/v1", "Port could not be cast to integer value as 'x'"),
        ("http://a..b/v1", "'a..b' is not the name of a host"),
        (f"http://{'a' * 70}/v1", "is not the name of a host"),
        ("http://[::1/v1", "Invalid IPv6 URL"),
        ("http://[zz]/v1", "'zz' does not appear to be an IPv4 or IPv6 address"),
        ("[::1", "Invalid IPv6 URL"),
        ("http://localhost/v 1", "there is a space or a control character in it"),
        ("http://localhost\x01/v1", "there is a space or a control character in it"),
    ],
)
def test_what_is_wrong_with_an_address_is_said(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("[", r"\[")):
        read_server_address(text)
