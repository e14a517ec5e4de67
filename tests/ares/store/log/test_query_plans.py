"""Every query of an annotation store uses an index, as the query plans of the databases show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pymongo import MongoClient, monitoring

from ares.annotation import Annotation, Producer
from ares.store import AnnotationStore
from ares.store.log.mongo import MongoAnnotationStore
from ares.store.log.sqlite import SqliteAnnotationStore

Make = Callable[..., Annotation]
_QUERY_COMMANDS = ("find", "aggregate", "update", "delete")


def _call_every_method(store: AnnotationStore, make_annotation: Make) -> None:
    """Call every method that queries the database."""
    store.append([make_annotation(f"{number:05}", name=f"name{number % 3}") for number in range(300)])
    store.read(after=100, limit=10)
    store.last_sequence()
    store.find_done_subjects(make_annotation("").maker_id, ["00005", "00007"])
    store.find_annotations(["00005", "00007"])
    store.find_annotations(["00005", "00007"], ["name1"])
    store.find_annotations(["00005", "00007"], maker_ids=["a producer"])
    store.find_annotations(["00005", "00007"], ["name1"], maker_ids=["a producer", "another"])
    store.get_annotation(make_annotation("00005").annotation_id)
    store.find_episodes("name1")
    store.find_episodes("name1", make_annotation("").maker_id)
    store.count_episodes()
    store.count_annotations([make_annotation("").maker_id])
    store.add_producer(Producer(annotator="a", version="1"))
    store.producers()
    store.put_documents("sets", {f"{number:05}": number for number in range(300)})
    store.get_document("sets", "00007")
    assert len(list(store.find_documents("sets"))) == 300
    store.claim_document("sets", "00008", {})
    store.drop_documents("sets", ["00007"])


class _CommandRecorder(monitoring.CommandListener):
    """Records the commands that a client sends."""

    def __init__(self) -> None:
        self.commands: list[dict[str, Any]] = []

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        if event.command_name in _QUERY_COMMANDS:
            self.commands.append(dict(event.command))

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """Not recorded."""

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """Not recorded."""


def _stages(plan: object) -> Iterator[str]:
    if isinstance(plan, dict):
        if isinstance(plan.get("stage"), str):
            yield plan["stage"]
        plan = list(plan.values())
    if isinstance(plan, list):
        for child in plan:
            yield from _stages(child)


def test_mongodb_never_scans_a_collection(
    mongo_uri: str, make_annotation: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder, workspace = _CommandRecorder(), uuid4().hex
    with monkeypatch.context() as patch:
        patch.setattr(monitoring, "_LISTENERS", monitoring._LISTENERS._replace(command_listeners=[recorder]))
        store = MongoAnnotationStore(mongo_uri, workspace)
    with closing(store):
        _call_every_method(store, make_annotation)
    sent = {name for command in recorder.commands for name in command if name in _QUERY_COMMANDS}
    assert sent == {"find", "aggregate", "update", "delete"}
    with MongoClient[dict[str, Any]](mongo_uri) as client:
        database = client[f"ares_{workspace[:12]}"]
        for command in recorder.commands:
            fields = {key: value for key, value in command.items() if key[0] not in "$l" or key == "limit"}
            fields.pop("writeConcern", None)
            for single in _split_writes(fields):
                plan = database.command({"explain": single, "verbosity": "queryPlanner"})
                stages = set(_stages(plan))
                assert "COLLSCAN" not in stages, (single, stages)
                assert stages & {"IXSCAN", "IDHACK", "DISTINCT_SCAN", "EOF"}, (single, stages)
        client.drop_database(database)


def _split_writes(command: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The command, or one command for each of its first few writes: only those can be explained."""
    writes = next((name for name in ("updates", "deletes") if name in command), "")
    for write in command.get(writes, [None])[:3]:
        yield {**command, writes: [write]} if writes else command


def test_sqlite_never_scans_a_table(tmp_path: Path, make_annotation: Make) -> None:
    statements: list[str] = []
    with closing(SqliteAnnotationStore(tmp_path / "log.sqlite")) as store:
        store._connection.set_trace_callback(statements.append)
        _call_every_method(store, make_annotation)
        store._connection.set_trace_callback(None)
        queries = {query for query in statements if query.startswith(("SELECT", "DELETE", "UPDATE"))}
        plans = {query: store._rows(f"EXPLAIN QUERY PLAN {query}") for query in queries}
    assert len(plans) > 9
    for statement, plan in plans.items():
        scans = [row[-1] for row in plan if row[-1].startswith("SCAN")]
        # All producers are read, counts come from their index alone, and a list of ids is not a table.
        allowed = ("SCAN makers", "SCAN json_each", "SCAN facts USING COVERING INDEX facts_counts")
        assert all(scan.startswith(allowed) for scan in scans), (statement, scans)
        assert not any("TEMP B-TREE FOR ORDER BY" in row[-1] for row in plan) or "json_each" in statement
