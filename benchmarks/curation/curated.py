"""The pool curated by commands of ARES alone, which are told nothing of its faults."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FAULTY, _WRONG_TEXT = "faulty", "wrong-instruction"
# The rule, written before the first run: what succeeded, has no fault and an instruction that fits, and is no copy.
_RULE = f"success AND NOT tagged('{_FAULTY}') AND NOT tagged('{_WRONG_TEXT}')"


@dataclass(frozen=True, slots=True, kw_only=True)
class CuratedPool:
    """What ARES left.

    Attributes:
        folder: The export, as LeRobot v3.0.
        kept: Numbers of the episodes that it kept.
        found: Codes of faults, and "wrong-instruction", by the number of the episode.
        note: What the audit of the instructions says of itself.
    """

    folder: Path
    kept: frozenset[int]
    found: dict[int, list[str]]
    note: str


class _Commands:
    """Commands of ARES in one workspace.

    Args:
        workspace: Its folder.
        encoder: Model that embeds frames and texts, or "".
    """

    def __init__(self, workspace: Path, encoder: str) -> None:
        self._workspace = workspace
        self._environ = {name: value for name, value in os.environ.items() if not name.startswith("ARES_")}
        self._environ |= {"ARES_EMBED_MODEL": encoder} if encoder else {}

    def run(self, *arguments: object, statuses: tuple[int, ...] = (0,)) -> Any:
        """What a command answers as JSON.

        Args:
            arguments: The command and its arguments.
            statuses: Exit statuses that are none of a failure: 1 where a check finds something.
        """
        words = [*map(str, arguments), "-w", str(self._workspace), "--json", "-q"]
        command = [sys.executable, "-m", "ares", *words]
        done = subprocess.run(command, env=self._environ, capture_output=True, text=True, check=False)
        if done.returncode not in statuses:
            raise RuntimeError(f"ares {' '.join(words)}: exit status {done.returncode}\n{done.stderr}")
        return json.loads(done.stdout)

    def tag(self, name: str, ids: list[str]) -> None:
        """Tag some episodes."""
        if ids:
            self.run("tag", "add", name, *ids)


def curate_pool(pool: Path, folder: Path, encoder: str) -> CuratedPool:
    """Curate a pool that lies in a folder, in a workspace and with an export below another one.

    Args:
        pool: The dataset.
        folder: A new folder.
        encoder: Model for the audit of the instructions, as `ARES_EMBED_MODEL` names it, or "" for none.
    """
    ares = _Commands(folder / "workspace", encoder)
    ares.run("ingest", pool, "--dataset", "pool")
    ares.run("set", "create", "all", "--where", "TRUE")
    numbers = {row["episode_id"]: int(row["key"]) for row in _list_members(ares, "all")}
    found: dict[int, list[str]] = {number: [] for number in numbers.values()}
    faulty = set()
    report = ares.run("check", "--listed", 10 * len(numbers), statuses=(0, 1))
    for code in report["datasets"][0]["findings"]:
        for finding in code["worst"] if code["severity"] == "fault" else ():
            faulty.add(finding["episode_id"])
            found[numbers[finding["episode_id"]]].append(code["code"])
    ares.tag(_FAULTY, sorted(faulty))
    ares.run("audit", "duplicates", statuses=(0, 1))
    note = _audit_instructions(ares, numbers, found) if encoder else "no encoder: no audit of instructions"
    ares.run("set", "create", "curated", "--where", _RULE, "--dedupe")
    kept = _list_members(ares, "curated")
    ares.run("export", "curated", folder / "curated", "--format", "lerobot")
    return CuratedPool(
        folder=folder / "curated",
        kept=frozenset(numbers[row["episode_id"]] for row in kept),
        found=found,
        note=note,
    )


def _list_members(ares: _Commands, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = ares.run("set", "show", name, "--columns", "key")["rows"]
    return rows


def _audit_instructions(ares: _Commands, numbers: dict[str, int], found: dict[int, list[str]]) -> str:
    """Tag the episodes of which another instruction fits better."""
    ares.run("annotate", "motion", "embed")
    (audit,) = ares.run("audit", "instructions", statuses=(0, 1))
    named = [finding["episode_id"] for finding in audit["findings"]]
    ares.tag(_WRONG_TEXT, named)
    for id in named:
        found[numbers[id]].append(_WRONG_TEXT)
    return f"audit of instructions: {audit['verdict']} {audit['reason']}".strip()
