"""Status: what the workspace holds, what is done, what is missing and what failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import streamlit as st

from app.dashboard import handles
from app.dashboard.words import plain
from ares.describe import describe_workspace, failures_by_reason


def render() -> None:
    """Draw the page."""
    ws = handles.workspace()
    document = cast("Mapping[str, Any]", describe_workspace(ws))
    with st.container(horizontal=True, vertical_alignment="center"):
        st.header("Status", width="content")
        st.space("stretch")
        if st.button("Refresh", icon=":material/refresh:", key="status.refresh"):
            handles.refresh()
    st.caption(plain(ws.location))
    tiles = st.columns(4)
    tiles[0].metric("Episodes", f"{document['episodes']:,}", border=True)
    tiles[1].metric("Datasets", f"{len(document['datasets']):,}", border=True)
    tiles[2].metric("Sets", f"{len(document['sets']):,}", border=True)
    tiles[3].metric("Media cache", _size(handles.cache_bytes()), border=True)
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("Datasets")
        _table([{"dataset": name, "episodes": n} for name, n in document["datasets"].items()], "none yet")
        st.subheader("Tables")
        shown = ("rows", "indexed", "recall", "p50_ms")
        _table(
            [
                {"table": name, **{key: counts[key] for key in shown}}
                for name, counts in document["tables"].items()
            ],
            "none yet",
        )
    with right:
        st.subheader("Annotations")
        _table(
            [{"annotation": name, **counts} for name, counts in document["annotations"].items()], "none yet"
        )
        st.subheader("Failures by reason")
        _table(cast("list[dict[str, Any]]", failures_by_reason(ws)), "nothing has failed")


def _table(rows: list[dict[str, Any]], nothing: str) -> None:
    if rows:
        st.dataframe(rows, hide_index=True)
    else:
        st.caption(nothing)


def _size(size: int) -> str:
    return f"{size / 2**20:.1f} MB" if size < 2**30 else f"{size / 2**30:.2f} GB"
