"""Page "Health": what is typical of a dataset, its lag, what the checks say of a sample, and the instruction audit."""

from __future__ import annotations

from dataclasses import asdict
from itertools import count
from typing import TYPE_CHECKING

import streamlit as st

from app.dashboard import cached_reads, navigation
from app.dashboard.address import read_parameter, write_parameters
from app.dashboard.annotation_rows import make_contract_rows, make_finding_rows, make_worst_episode_rows
from app.dashboard.components import draw_table
from app.dashboard.fields import entered_text, show_value
from app.dashboard.markdown_text import escape_markdown
from app.dashboard.selection_bar import read_person_name
from app.dashboard.view_state import AddressError
from ares.console import count_are, count_of
from ares.reports import DatasetHealth

if TYPE_CHECKING:
    from ares.review import InstructionFinding

# Combinations of dimensions that are drawn, the most frequent first.
_SHOWN_CONTRACTS = 3
_DATASET = "health.dataset"
# Episodes that another instruction fits better, of which this many are listed; `ares check --instructions` has all.
_SHOWN_INSTRUCTIONS = 200


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
        navigation.draw_job_button("Ingest from here", "ingest")
        return
    # The address decides: a list that keeps its own choice would show another dataset after the button "back".
    show_value(_DATASET, named or datasets[0])
    dataset = str(st.selectbox("Dataset", datasets, key=_DATASET, on_change=_put_dataset_in_url))
    with st.spinner("Checking a sample of the episodes"):
        health = cached_reads.read_health(dataset)
    _draw_tiles(health)
    _draw_findings(health)
    _draw_instructions(dataset)
    _draw_contracts(health)
    _draw_dimensions(health)


def _put_dataset_in_url() -> None:
    dataset = entered_text(_DATASET)
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
        help=f"Median of {count_of(health.num_lags, 'episode')}; the data of {health.num_unknown_lags} do not say.",
    )
    tiles.metric("Episodes with faults, by code", f"{faults:,}", border=True)


def _draw_findings(health: DatasetHealth) -> None:
    st.subheader("Findings")
    if not health.counts:
        st.caption("The checks found nothing in this sample. `ares check` reads every episode.")
        navigation.draw_job_button("Check every episode", "check")
        return
    draw_table(make_finding_rows(health), "health.findings")
    st.subheader("Worst episodes")
    st.caption("A button opens the episode at its finding.")
    draw_table(make_worst_episode_rows(health), "health.worst", "Open", lambda row: _open_worst(health, row))


def _open_worst(health: DatasetHealth, row: int) -> None:
    episode = health.worst[row]
    navigation.open_page("episode", {"episode": [episode.episode_id], "t": [f"{episode.seconds:.3f}"]})


def _draw_instructions(dataset: str) -> None:
    """Draw which episodes another instruction fits better, as the last audit says, and what can be done."""
    st.subheader("Instructions")
    audits = cached_reads.read_instruction_audits()
    audit = next((audit for audit in audits if audit.dataset == dataset), None)
    if audit is None:
        st.caption("Not audited yet: run `ares check --instructions`.")
        navigation.draw_job_button("Audit instructions", "check", key="instructions")
        return
    st.caption(escape_markdown(str(audit)))
    shown = audit.findings[:_SHOWN_INSTRUCTIONS]
    if not shown:
        return
    st.button(
        f"Ask people about {count_of(len(audit.findings), 'episode')}",
        key="health.ask",
        on_click=_make_instruction_queue,
        args=(dataset,),
    )
    rows = [
        {"episode": finding.episode_id, "finding": str(finding), "sure": finding.share} for finding in shown
    ]
    number = draw_table(rows, "health.instructions", "Select")
    if number is not None:
        _draw_instruction_actions(shown[number])


def _make_instruction_queue(dataset: str) -> None:
    """Make a queue of all that the audit of a dataset names, and open it."""
    from ares.review import QueueRequest, create_audit_queue

    workspace = cached_reads.workspace()
    names = {queue.name for queue in workspace.review.queues()}
    name = next(name for number in count(1) if (name := f"instructions-{number}") not in names)
    request = QueueRequest(name=name, question="instruction", person=read_person_name())
    create_audit_queue(workspace.stores, request, dataset)
    navigation.open_page("review", {"queue": [name]})


def _draw_instruction_actions(finding: InstructionFinding) -> None:
    opening, accepting = st.columns(2)
    second = f"{finding.seconds[0] if finding.seconds else 0.0:.3f}"
    opening.button(
        "Open the episode at the first of these frames",
        key="health.open",
        on_click=navigation.open_page,
        args=("episode", {"episode": [finding.episode_id], "t": [second]}),
    )
    accepting.button(
        escape_markdown(f'The instruction is "{finding.proposed}"'),
        key="health.accept",
        help="Stored as your answer, which `ares undo` takes back. The source is not changed.",
        on_click=accept_correction,
        args=(finding,),
    )


def accept_correction(finding: InstructionFinding) -> None:
    """Store the other instruction as what the user says; the source stays as it is."""
    cached_reads.workspace().review.give(finding.correction(read_person_name()))


def _draw_contracts(health: DatasetHealth) -> None:
    st.subheader("Meaning of the signals")
    if not health.contracts:
        st.caption("No signal of this sample says what it means.")
        return
    st.caption(
        "What the values and names say, and what a spec states instead. A value is claimed from a confidence of 0.9 on."
    )
    for number, contract in enumerate(health.contracts[:_SHOWN_CONTRACTS]):
        draw_table(make_contract_rows(contract), f"health.contract.{number}")
    if len(health.contracts) > _SHOWN_CONTRACTS:
        more = len(health.contracts) - _SHOWN_CONTRACTS
        st.caption(
            f"{count_are(more, 'more combination', 'dimensions')} in this sample; `ares check --json` lists all."
        )


def _draw_dimensions(health: DatasetHealth) -> None:
    st.subheader("Dimensions")
    if not health.dimensions:
        st.caption(escape_markdown(f"No episode of {health.dataset} has signals that could be summarised."))
        return
    st.caption(
        "Values in the unit of the source; range, speed (per second) and noise are medians of episodes."
    )
    draw_table([asdict(dimension) for dimension in health.dimensions], "health.dimensions")
