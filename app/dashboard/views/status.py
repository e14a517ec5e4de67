"""Page "Status": counts of episodes, annotations and table rows, and failures by reason."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import streamlit as st

from app.dashboard import cached_reads
from app.dashboard.column_words import code_words, document_words, model_words, time_words
from app.dashboard.components import draw_table
from app.dashboard.failed_work import draw_failed_work, draw_retry_jobs
from app.dashboard.markdown_text import escape_markdown
from ares.rubric import KIND_WORDS

# Counts of a table, and what they are called on the page.
_TABLE_COUNTS = {"rows": "rows", "indexed": "indexed", "recall": "recall", "p50_ms": "median (ms)"}


def render() -> None:
    """Draw the status of the workspace."""
    workspace = cached_reads.workspace()
    document = cast("Mapping[str, Any]", cached_reads.limited(lambda: workspace.status().to_json()))
    with st.container(horizontal=True, vertical_alignment="center"):
        st.header("Status", width="content")
        st.space("stretch")
        st.button(
            "Refresh", icon=":material/refresh:", key="status.refresh", on_click=cached_reads.clear_caches
        )
    st.caption(escape_markdown(workspace.location))
    _draw_tiles(document)
    left_column, right_column = st.columns(2, gap="large")
    with left_column:
        _draw_stores(document)
    with right_column:
        _draw_jobs(document)
    # Too wide for half of the page.
    _draw_measured(document)
    _draw_judges(document)
    _draw_producers(document)


def _draw_tiles(document: Mapping[str, Any]) -> None:
    tiles = st.container(horizontal=True)  # two in a row on a phone
    tiles.metric("Episodes", f"{document['episodes']:,}", border=True)
    tiles.metric("Datasets", f"{len(document['datasets']):,}", border=True)
    tiles.metric("Sets", f"{len(document['sets']):,}", border=True)
    tiles.metric("Media cache", _format_bytes(cached_reads.media_cache_bytes()), border=True)


def _draw_stores(document: Mapping[str, Any]) -> None:
    st.subheader("Datasets")
    datasets = [{"dataset": name, "episodes": count} for name, count in document["datasets"].items()]
    _draw_table(datasets, "status.datasets", "none yet")
    st.subheader("Tables")
    tables = [
        {
            "table": (model_words(name).replace("/", " of "), name),
            **{label: counts[key] for key, label in _TABLE_COUNTS.items()},
        }
        for name, counts in document["tables"].items()
    ]
    _draw_table(tables, "status.tables", "none yet")


def _draw_jobs(document: Mapping[str, Any]) -> None:
    st.subheader("Annotations")
    annotations = [
        {"annotation": (code_words(name), name), **counts} for name, counts in document["annotations"].items()
    ]
    _draw_table(annotations, "status.annotations", "none yet")
    st.subheader("Failures by reason")
    _draw_failures(document["failures"])


def _draw_producers(document: Mapping[str, Any]) -> None:
    st.subheader("Producers")
    producers = [
        {
            "producers of": (code_words(name), f"producer {producer['maker_id']}"),
            "kind": producer["kind"],
            "model": (model_words(producer["model"]), producer["model"]),
            **{key: producer.get(key) for key in ("annotations", "current", "pinned", "version")},
            "settings": (
                _join_rows(document_words(producer["settings"], {})),
                json.dumps(producer["settings"]),
            ),
        }
        for name, members in document["makers"].items()
        for producer in members
    ]
    _draw_table(producers, "status.makers", "none yet")


def _join_rows(rows: Mapping[str, str]) -> str:
    return "\n".join(f"{label}: {text}" for label, text in rows.items())


def _draw_failures(failures: list[dict[str, Any]]) -> None:
    """Draw the failures by reason; a selected row shows the episodes behind it."""
    draw_retry_jobs()
    if not failures:
        st.caption("nothing has failed")
        return
    row = draw_table(failures, "status.failures", "Show episodes")
    if row is not None:
        draw_failed_work(str(failures[row]["work"]), str(failures[row]["reason"]))


def _draw_measured(document: Mapping[str, Any]) -> None:
    st.subheader("Measured by people")
    rows = [
        {"dataset": dataset, "how many are true": share["says"]}
        for dataset, shares in document["measured"].items()
        for share in shares.values()
    ]
    _draw_table(rows, "status.measured", "no captions were accepted yet")


def _draw_judges(document: Mapping[str, Any]) -> None:
    st.subheader("Judges of captions by dataset")
    judges = [
        {
            "dataset": name,
            "state": document["state"],
            "judge": (model_words(document.get("label", "")), document.get("label", "")),
            "false ones accepted": "\n".join(
                f"{counts['accepted']} of {counts['total']} {KIND_WORDS.get(kind, kind)}"
                for kind, counts in document.get("kinds", {}).items()
            ),
            "refuted": time_words(document["refuted"]),
            "why": document["reason"],
        }
        for name, document in document["judge_tripwire"].items()
    ]
    _draw_table(judges, "status.judges", "no captions were graded yet")


def _draw_table(rows: Sequence[dict[str, Any]], key: str, placeholder: str) -> None:
    """Draw a table without the columns that no row has a value for."""
    if rows:
        empty = {name for name in rows[0] if all(row[name] in (None, "", ("", "")) for row in rows)}
        shown = [{name: value for name, value in row.items() if name not in empty} for row in rows]
        draw_table(shown, key)
    else:
        st.caption(placeholder)


def _format_bytes(size: int) -> str:
    return f"{size / 2**20:.1f} MB" if size < 2**30 else f"{size / 2**30:.2f} GB"
