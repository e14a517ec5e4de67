"""Page "Health": what is typical of a dataset, its lag, and what the checks say of a sample of its episodes."""

from __future__ import annotations

from dataclasses import asdict

import streamlit as st

from app.dashboard import cached_reads, navigation
from app.dashboard.annotation_rows import make_contract_rows, make_finding_rows, make_worst_episode_rows
from app.dashboard.navigation import escape_markdown, read_parameter, write_parameters
from app.dashboard.view_state import AddressError
from ares.reports import DatasetHealth

# Combinations of dimensions that are drawn, the most frequent first.
_SHOWN_CONTRACTS = 3
_DATASET = "health.dataset"


def render() -> None:
    """Draw the health of the dataset that the URL names, or of the first."""
    datasets = list(cached_reads.count_datasets())
    named = read_parameter("dataset")
    if named and named not in datasets:
        detail = f"there are: {', '.join(datasets) or 'none yet'}"
        raise AddressError("dataset", f"there is no dataset {named!r}", detail)
    st.header("Data health")
    if not datasets:
        st.info("There are no episodes yet: run `ares ingest FOLDER`.", icon=":material/info:")
        return
    # The address decides: a list that keeps its own choice would show another dataset after the button "back".
    navigation.show_value(_DATASET, named or datasets[0])
    dataset = str(st.selectbox("Dataset", datasets, key=_DATASET, on_change=_put_dataset_in_url))
    with st.spinner("Checking a sample of the episodes"):
        health = cached_reads.read_health(dataset)
    _draw_tiles(health)
    _draw_findings(health)
    _draw_contracts(health)
    _draw_dimensions(health)


def _put_dataset_in_url() -> None:
    dataset = navigation.entered_text(_DATASET)
    if dataset:
        write_parameters({"dataset": [dataset]})


def _draw_tiles(health: DatasetHealth) -> None:
    tiles = st.container(horizontal=True)  # two in a row on a phone
    faults = sum(count.num_episodes for count in health.counts if count.severity == "fault")
    tiles.metric("Episodes", f"{health.num_episodes:,}", border=True)
    tiles.metric(
        "Checked here", f"{health.num_checked:,}", border=True, help="A sample, the same every time."
    )
    lag = f"{health.lag_seconds:.3f} s" if health.lag_seconds is not None else "unknown"
    tiles.metric(
        "State behind action",
        lag,
        border=True,
        help=f"Median of {health.num_lags} episodes; the data of {health.num_unknown_lags} do not say.",
    )
    tiles.metric("Episodes with faults, by code", f"{faults:,}", border=True)


def _draw_findings(health: DatasetHealth) -> None:
    st.subheader("Findings")
    if not health.counts:
        st.caption("The checks found nothing in this sample. `ares check` reads every episode.")
        return
    st.dataframe(make_finding_rows(health), hide_index=True, key="health.findings")
    st.subheader("Worst episodes")
    st.caption("Select a row to open the episode at its finding.")
    st.dataframe(
        make_worst_episode_rows(health), hide_index=True, key="health.worst", selection_mode="single-row",
        on_select=lambda: _open_selected(health),
    )  # fmt: skip


def _open_selected(health: DatasetHealth) -> None:
    for row in navigation.selected_rows("health.worst")[:1]:
        episode = health.worst[row]
        navigation.open_page("episode", {"episode": [episode.episode_id], "t": [f"{episode.seconds:.3f}"]})


def _draw_contracts(health: DatasetHealth) -> None:
    st.subheader("Meaning of the signals")
    if not health.contracts:
        st.caption("No signal of this sample says what it means.")
        return
    st.caption(
        "What the values and names say, and what a spec states instead. A value is claimed from a confidence of 0.9 on."
    )
    for number, contract in enumerate(health.contracts[:_SHOWN_CONTRACTS]):
        st.dataframe(
            make_contract_rows(contract), hide_index=True, key=f"health.contract.{number}", placeholder=""
        )
    if len(health.contracts) > _SHOWN_CONTRACTS:
        more = len(health.contracts) - _SHOWN_CONTRACTS
        st.caption(
            f"{more} more combinations of dimensions are in this sample; `ares check --json` lists all."
        )


def _draw_dimensions(health: DatasetHealth) -> None:
    st.subheader("Dimensions")
    if not health.dimensions:
        st.caption(escape_markdown(f"No episode of {health.dataset} has signals that could be summarised."))
        return
    st.caption(
        "Values in the unit of the source; range, speed (per second) and noise are medians of episodes."
    )
    st.dataframe(
        [asdict(dimension) for dimension in health.dimensions],
        hide_index=True,
        key="health.dimensions",
        placeholder="",
    )
