"""Lets the search box of Streamlit take a dropped image and the key "/", and adds a link that skips to the episodes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

from app.dashboard.components.registration import load_component
from ares.errors import RequestError


def draw_search_input(key: str, on_image: Callable[[bytes], None]) -> None:
    """Draw nothing but the link; listen for the key and for images that are dropped on the search box.

    Args:
        key: Streamlit key of the component.
        on_image: Called with a JPEG of at most 768 pixels, before the page is drawn again.
    """

    def handle_drop() -> None:
        import streamlit as st

        dropped = st.session_state[key].dropped
        if dropped:
            on_image(_decode(str(dropped)))

    load_component("search_input")(data={}, key=key, on_dropped_change=handle_drop)


def _decode(data_url: str) -> bytes:
    """Bytes of a data URL. Raises RequestError when it is none."""
    try:
        return base64.b64decode(data_url.partition(",")[2], validate=True)
    except binascii.Error:
        raise RequestError("the image cannot be read", "drop a PNG, JPEG or WebP file") from None
