"""Every question that a store asks its database is answered by an index: the databases' own plans are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pymongo import MongoClient, monitoring

from ares.annotation import Annotation, Maker
from ares.store.annotations import AnnotationStore
from ares.store.mongo import MongoStore
from ares.store.sqlite import SqliteStore

Make = Callable[..., Annotation]
_ASKED = ("find", "aggregate", "update", "delete")


def _use_all(store: AnnotationStore, make_fact: Make) -> None:
    """Ask everything that can be asked."""
    store.append([make_fact(f"{number:05}", name=f"name{number % 3}") for number in range(2000)])
    store.read(after=100, limit=10)
    store.last_sequence()
    store.done(make_fact("").maker_id, ["00005", "00007"])
    store.made(["00005", "00007"], "name1")
    store.about(["00005", "00007"])
    store.about(["00005", "00007"], ["name1"])
    store.counts()
    store.add_maker(Maker(annotator="a", version="1"))
    store.makers()
    store.put("sets", {f"{number:05}": number for number in range(2000)})
    store.get("sets", "00007")
    assert len(list(store.find("sets"))) == 2000
    store.claim("sets", "00008", {})
    store.drop("sets", ["00007"])


class _Heard(monitoring.CommandListener):
    """Keeps the commands that a client sends."""

    def __init__(self) -> None:
        self.commands: list[dict[str, Any]] = []

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        if event.command_name in _ASKED:
            self.commands.append(dict(event.command))

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """Nothing to keep."""

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """Nothing to keep."""


def _stages(plan: object) -> Iterator[str]:
    if isinstance(plan, dict):
        if isinstance(plan.get("stage"), str):
            yield plan["stage"]
        plan = list(plan.values())
    if isinstance(plan, list):
        for each in plan:
            yield from _stages(each)


def test_mongodb_never_scans_a_collection(
    mongo_uri: str, make_fact: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, workspace = _Heard(), uuid4().hex
    with monkeypatch.context() as patch:
        patch.setattr(monitoring, "_LISTENERS", monitoring._LISTENERS._replace(command_listeners=[heard]))
        store = MongoStore(mongo_uri, workspace)
    with closing(store):
        _use_all(store, make_fact)
    asked = {name for command in heard.commands for name in command if name in _ASKED}
    assert asked == {"find", "aggregate", "update", "delete"}
    with MongoClient[dict[str, Any]](mongo_uri) as client:
        database = client[f"ares_{workspace[:12]}"]
        for command in heard.commands:
            own = {key: value for key, value in command.items() if key[0] not in "$l" or key == "limit"}
            own.pop("writeConcern", None)
            for part in _one_by_one(own):
                plan = database.command({"explain": part, "verbosity": "queryPlanner"})
                stages = set(_stages(plan))
                assert "COLLSCAN" not in stages, (part, stages)
                assert stages & {"IXSCAN", "IDHACK", "DISTINCT_SCAN", "EOF"}, (part, stages)
        client.drop_database(database)


def _one_by_one(command: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The command, or one command for each of its first few writes: only those can be explained."""
    several = next((name for name in ("updates", "deletes") if name in command), "")
    for one in command.get(several, [None])[:3]:
        yield {**command, several: [one]} if several else command


def test_sqlite_never_scans_a_table(tmp_path: Path, make_fact: Make) -> None:
    statements: list[str] = []
    with closing(SqliteStore(tmp_path / "log.sqlite")) as store:
        store._connection.set_trace_callback(statements.append)
        _use_all(store, make_fact)
        store._connection.set_trace_callback(None)
        asked = {each for each in statements if each.startswith(("SELECT", "DELETE", "UPDATE"))}
        plans = {each: store._rows(f"EXPLAIN QUERY PLAN {each}") for each in asked}
    assert len(plans) > 9
    for statement, plan in plans.items():
        scans = [row[-1] for row in plan if row[-1].startswith("SCAN")]
        # Makers are read whole, counts from their index alone, and a list of ids is no table.
        allowed = ("SCAN makers", "SCAN json_each", "SCAN facts USING COVERING INDEX facts_counts")
        assert all(scan.startswith(allowed) for scan in scans), (statement, scans)
        assert not any("TEMP B-TREE FOR ORDER BY" in row[-1] for row in plan) or "json_each" in statement
