"""The metadata.json of an RLDS export: its rate, which RLDS does not store, and the names of its dimensions."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from ares.export.plan import DatasetGroup
from ares.export.rlds.keys import ACTION_KEY, LANGUAGE_KEY, REWARD_KEY, STATE_KEY, RldsKeys


def describe_copied(group: DatasetGroup) -> dict[str, Any]:
    """What a copied dataset does not say itself: its rate."""
    return _document(group, "copied", {})


def describe_written(group: DatasetGroup, keys: RldsKeys) -> dict[str, Any]:
    """Rate, dimensions, cameras and instruction, as a spec that ingestion reads."""
    layout = group.layout
    spec: dict[str, Any] = {
        "cameras": {
            name: {"key": key, "role": group.camera_roles[name]} for name, key in keys.cameras.items()
        },
        "state": _slices(STATE_KEY, layout.state_names),
        "action": _slices(ACTION_KEY, layout.action_names),
        "reward": REWARD_KEY if group.has_reward else "",
        "language": [LANGUAGE_KEY],
    }
    return _document(group, "written", spec)


def _slices(key: str, names: tuple[str, ...]) -> list[dict[str, Any]]:
    return [{"key": key, "names": list(names)}] if names else []


def _document(group: DatasetGroup, records: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "ares": version("ares-curation"),
        "records": records,
        "rate_hz": group.rate_hz,
        "rate_source": "assumed" if group.has_assumed_rate else "source",
        "spec": spec,
    }
