"""What the signals of a dataset mean, and which of its episodes differ from the rest, by a sample."""

from __future__ import annotations

import streamlit as st

from ares.console import count_are, count_of
from ares_app.dashboard import cached_reads, navigation
from ares_app.dashboard.annotation_rows import make_contract_rows, make_finding_rows
from ares_app.dashboard.components import draw_table

# Combinations of dimensions that are drawn, the most frequent first.
_SHOWN_CONTRACTS = 3


def draw_dataset_signals(dataset: str) -> None:
    """Draw what a sample of a dataset says: findings by comparison, the worst episodes, and what signals mean."""
    with st.spinner("Checking a sample of the episodes"):
        health = cached_reads.read_health(dataset)
    st.caption(f"A sample of {count_of(health.num_checked, 'episode')}, the same every time.")
    if health.lag_seconds is not None:
        lag = f"The state follows the action after {health.lag_seconds:.3f} s"
        st.caption(f"{lag}: the median of {count_of(health.num_lags, 'episode')}.")
    if health.counts:
        st.markdown("**Findings beside the rest of the dataset**")
        draw_table(make_finding_rows(health), "quality.sample")
        rows = [{"episode": episode.key, "faults": episode.num_faults} for episode in health.worst]
        draw_table(
            rows,
            "quality.worst",
            "Open",
            lambda row: _open_worst(health.worst[row].episode_id, health.worst[row].seconds),
        )
    if health.contracts:
        st.markdown("**Meaning of the signals**")
        for number, contract in enumerate(health.contracts[:_SHOWN_CONTRACTS]):
            draw_table(make_contract_rows(contract), f"quality.contract.{number}")
    if len(health.contracts) > _SHOWN_CONTRACTS:
        more = count_are(len(health.contracts) - _SHOWN_CONTRACTS, "more combination", "dimensions")
        st.caption(f"{more} in this sample; `ares check --json` lists all.")


def _open_worst(episode_id: str, seconds: float) -> None:
    navigation.open_page("episode", {"episode": [episode_id], "t": [f"{seconds:.3f}"]})
