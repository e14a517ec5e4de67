"""Table of the makers of a workspace, which `ares use` and `ares status` print."""

from __future__ import annotations

from typing import Any

from app.cli.output import OutputTable


def makers_table(makers: dict[str, Any]) -> OutputTable:
    """The makers of every annotator, and which of them fill the columns."""
    rows = [
        (
            annotator,
            maker["maker_id"],
            maker["kind"],
            maker["model"] or f"version {maker['version']}",
            maker["annotations"],
            _use(maker, members),
            _differing_settings(maker, members),
        )
        for annotator, members in makers.items()
        for maker in members
    ]
    return OutputTable(rows, ("makers of", "maker", "kind", "model", "annotations", "used", "settings"))


def _use(maker: dict[str, Any], members: list[dict[str, Any]]) -> str:
    """Whether the values of a maker fill the columns: people and a consensus come first unless another is pinned."""
    if any(member["pinned"] for member in members):
        return "pinned" if maker["pinned"] else ""
    return "newest" if maker["current"] else "first" if maker["kind"] in ("person", "consensus") else ""


def _differing_settings(maker: dict[str, Any], members: list[dict[str, Any]]) -> str:
    """The version, prompts and settings of a maker that another maker of its annotator has not."""
    details = [_details(member) for member in members]
    own = {
        name: value for name, value in _details(maker).items() if any(x.get(name) != value for x in details)
    }
    return ", ".join(f"{name}={value}" for name, value in own.items())


def _details(maker: dict[str, Any]) -> dict[str, Any]:
    return {"version": maker["version"], "prompts": maker["prompt_hash"], **maker["settings"]}
