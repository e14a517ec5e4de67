"""Drawn sources with audio, touch, flags, counters and texts per step become one dataset: asked, masked, never lost."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from ares import open as open_workspace
from ares.workspace import Workspace
from tests.ares.export.test_merge_plan import confirmation_texts, save, write_plan
from tests.generators.feature_sources import RATE_HZ, STEPS, DrawnFeature, FeatureSource, make_feature_sources
from tests.thinning import some_by_day

Values = dict[str, dict[str, np.ndarray[Any, Any]]]


def merge(seed: int, folder: Path) -> tuple[Workspace, list[FeatureSource], Path, dict[str, Any]]:
    """A workspace with the set "made" of drawn sources, and its plan."""
    ws, sources = open_workspace(folder / "ws", create=True), make_feature_sources(folder, seed)
    for source in sources:
        options: dict[str, Any] = {"rate_hz": RATE_HZ} if source.format == "hdf5" else {}
        ws.ingest(str(source.path), quiet=True, **options)
    ws.sets.create("made", sorted(ws.stores.tables.episodes.ids()), {})
    return ws, sources, *write_plan(ws, folder)


def differences(feature: DrawnFeature, other: DrawnFeature) -> Iterator[str]:
    """What a plan has to say of a feature that another source has as well."""
    if np.prod(feature.shape, dtype=int) != np.prod(other.shape, dtype=int):
        yield "is dropped"
        return
    if feature.dimensions != other.dimensions:
        yield "by their order"
    if (feature.planted == "unit") != (other.planted == "unit"):
        yield "unit and sign are taken as the same"
    if (feature.dtype == "float32") != (other.dtype == "float32"):
        yield "whole numbers in"


def expected_lines(sources: list[FeatureSource], plan: Mapping[str, Any]) -> set[tuple[str, str, str]]:
    """Dataset, feature and words of all that a plan has to say of features, for its sources in their order."""
    by_name = {source.path.name: source for source in sources}
    givers: dict[str, DrawnFeature] = {}
    lines = set()
    for planned in plan["sources"]:
        own = by_name[planned["dataset"]].features
        for name, feature in own.items():
            giver = givers.setdefault(name, feature)
            said = [] if giver is feature else list(differences(feature, giver))
            absent = sum(values is None for values in feature.values)
            said += [f"is in {len(feature.values) - absent} of {len(feature.values)}"] if absent else []
            said += ["not finite in"] if feature.has_gaps else []
            lines |= {(planned["dataset"], name, words) for words in said}
    return lines


def said_lines(text: str, expected: set[tuple[str, str, str]]) -> set[tuple[str, str, str]]:
    """The same of the plan; a line that is not expected is whole."""
    words = sorted({part for _, _, part in expected}, key=len, reverse=True)
    lines = set()
    for line in text.splitlines():
        if match := re.match(r"feature (\S+?):? (?:of (\S+)|whole)", line):
            dataset = match[2] or next(iter(re.findall(r"others in (\w+)|$", line)))
            lines.add((dataset.rstrip(":"), match[1], next((part for part in words if part in line), line)))
    return {
        ("", name, part) if part == "whole numbers in" else (own, name, part) for own, name, part in lines
    }


def goal_values(
    source: FeatureSource, number: int, planned: Mapping[str, Any], features: Mapping[str, list[str]]
) -> tuple[dict[str, np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    """(T, D) of each feature of the merged dataset for an episode of a source, and (T, F) its mask."""
    own = {goal: name for name, goal in planned.get("features", {}).items() if goal != "drop"}
    values, mask = {}, np.zeros((STEPS, len(features)))
    for column, (goal, names) in enumerate(features.items()):
        feature = source.features.get(own.get(goal, ""))
        rows = None if feature is None else feature.values[number]
        if feature is None or rows is None:
            values[goal] = np.zeros((STEPS, len(names)))
            continue
        if {*feature.names} == {*names}:
            rows = rows[:, [feature.names.index(name) for name in names]]
        mask[:, column] = np.isfinite(rows).all(axis=1)
        values[goal] = np.nan_to_num(rows)
    return values, mask


def check_values(read: Values, ws: Workspace, sources: list[FeatureSource], plan: Mapping[str, Any]) -> None:
    """Every value of every feature of every episode, as it was read, by the id of its source."""
    by_name = {source.path.name: source for source in sources}
    planned = {part["dataset"]: part for part in plan["sources"]}
    episodes = list(ws.stores.tables.episodes.read())
    assert read.keys() == {episode.episode_id for episode in episodes}
    for episode in episodes:
        number, own = int(episode.key.rpartition("_")[2]), read[episode.episode_id]
        values, mask = goal_values(
            by_name[episode.dataset], number, planned[episode.dataset], plan["features"]
        )
        for goal, rows in {**values, "mask.feature": mask}.items():
            assert np.array_equal(own[goal].reshape(STEPS, -1), rows.astype(np.float32)), (episode, goal)


def read_by_pyarrow(folder: Path) -> Values:
    """The features of a LeRobot folder, by the ids of the sources."""
    table = pq.read_table(folder / "data")
    lines = map(json.loads, (folder / "manifest.episodes.jsonl").read_text().splitlines())
    ids = {line["index"]: line["episode_id"] for line in lines}
    names = [name for name in table.column_names if name.startswith(("feature.", "mask."))]
    numbers = np.array(table["episode_index"].to_pylist())
    columns = {name: np.array(table[name].to_pylist()) for name in names}
    return {id: {name: rows[numbers == n] for name, rows in columns.items()} for n, id in ids.items()}


def read_by_ares(folder: Path, workspace: Path) -> Values:
    """The same of any folder, ingested again."""
    ws = open_workspace(workspace, create=True)
    ws.ingest(str(folder), quiet=True)
    lines = map(json.loads, (folder / "manifest.episodes.jsonl").read_text().splitlines())
    ids = {line["index"]: line["episode_id"] for line in lines}
    read: Values = {}
    for episode in ws.stores.tables.episodes.read():
        extra = ws.stores.tables.trajectories.read([episode.episode_id])
        number = int(re.findall(r"\d+", episode.key)[-1])
        read[ids[number]] = {name: own.values for _, part in extra for name, own in part.extra.items()}
    return read


@pytest.mark.parametrize("seed", some_by_day([53, 30, *range(60, 110)], kept=(53,)))
def test_drawn_features_are_asked_for_masked_and_never_lost(seed: int, tmp_path: Path) -> None:
    ws, sources, path, plan = merge(seed, tmp_path)
    text, expected = confirmation_texts(plan), expected_lines(sources, plan)
    wanted = {("" if part == "whole numbers in" else own, name, part) for own, name, part in expected}
    assert said_lines(text, expected) == wanted
    for source in sources:
        assert (f"{source.path.name} v2.1 was ingested without: column event" in text) == source.has_events
    save(path, plan)
    for format in ("lerobot", "lerobot-v2.1", "rlds"):
        report = ws.export("made", tmp_path / format, format=format, plan=path, quiet=True)
        assert (report.failed, len(report.datasets)) == (0, 1)
        for own, name, words in expected:
            if words == "is dropped":
                assert re.search(
                    rf"feature of {own}\b.* that the plan drops: .*\b{name}\b", str(report.left_out)
                )
            if words == "not finite in" and plan_goal(plan, own, name) != "drop":
                assert re.search(
                    rf"values of {name} of {own}\b.*not finite, 0 with a mask", str(report.left_out)
                )
        if format != "rlds":
            check_values(read_by_pyarrow(tmp_path / format), ws, sources, plan)
        check_values(read_by_ares(tmp_path / format, tmp_path / f"{format}-again"), ws, sources, plan)
    assert yaml.safe_load((tmp_path / "lerobot/plan.yaml").read_text())["features"] == plan["features"]


def plan_goal(plan: Mapping[str, Any], dataset: str, name: str) -> str:
    (own,) = (part["features"][name] for part in plan["sources"] if part["dataset"] == dataset)
    return str(own)
