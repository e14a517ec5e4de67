"""Measures grades of captions on simulated episodes: the judge alone, with stored success, and with gates that inform.

Generate the episodes as `benchmarks.success` says. Captions are true where they state the task and its outcome exactly.

.venv/bin/python -m benchmarks.grading EPISODES MODELS WORKSPACE
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ares.quality.audit import share_text
from ares.rubric import CONTROL, VERDICTS_COLUMN, Gates, describe_trust, judge_controls, parse_caption
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from benchmarks.success import make_record

_GRADE = {"grade": {"menu": "metaworld"}}
_COLUMNS = ["episode_id", "instruction", "success", "caption", VERDICTS_COLUMN]


def main() -> None:
    """Print the table, and what the controls say."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("episodes", type=Path, help="folder of generated episodes")
    parser.add_argument("models", type=Path, help="folder of the reference models")
    parser.add_argument("workspace", type=Path, help="workspace, which is kept")
    args = parser.parse_args()
    clip = f"local-dir:{args.models / 'reference-clip'}"
    settings = Settings(
        embed_model=clip,
        caption_model=f"hf:{args.models / 'reference-captioner'}",
        judge_model=f"clip:{clip}",
    )
    print(
        "| grades | captions | true | accepted | precision | coverage | false, of failed episodes | flips accepted |"
    )
    print("|---|---|---|---|---|---|---|---|")
    with open_workspace(str(args.workspace), settings) as workspace:
        add_episodes(workspace, args.episodes)
        workspace.annotate("caption")
        lines = [*print_grades(workspace, "judge alone")]
        workspace.annotate("success", options={"combination": "clip"})
        lines += print_grades(workspace, "stored success")
    print("\n".join(["", *lines]))


def add_episodes(workspace: Workspace, folder: Path) -> None:
    """Add the episodes of a folder, with what the simulator says of their outcome."""
    rows = [
        json.loads(line)
        for path in sorted(folder.glob("meta_*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    rows = [row for row in rows if row["success"] or row["mode"] != "expert"]
    records = [make_record(folder, row) for row in rows]
    outcomes = [bool(row["success"]) for row in rows]
    workspace.stores.tables.episodes.add(
        [
            replace(record, episode=replace(record.episode, success=outcome))
            for record, outcome in zip(records, outcomes, strict=True)
        ]
    )


def print_grades(workspace: Workspace, label: str) -> Iterable[str]:
    """Grade all captions, and print a row with every veto and one with the gates as they stand."""
    (report,) = workspace.annotate("grade", options=_GRADE)
    annotations = workspace.stores.annotations
    episode_ids = list(annotations.find_episodes(CONTROL))
    controls = annotations.find_annotations(episode_ids, [CONTROL], maker_ids=[report.maker])
    values = [dict(annotation.value) for annotation in controls]
    trust = judge_controls(values)
    standing = Gates({record.gate: record.state for record in trust.gates})
    rows = workspace.stores.tables.episodes.read_columns(_COLUMNS).to_pylist()
    print_row(f"{label}, every veto", rows, values, Gates({}))
    print_row(f"{label}, gates as they stand", rows, values, standing)
    yield f"{label}: {describe_trust(trust.to_json())}"
    yield "; ".join(f"{gate.gate} {gate.fails}/{gate.texts} {gate.state}" for gate in trust.gates)


def print_row(
    label: str, rows: list[dict[str, Any]], controls: Iterable[Mapping[str, Any]], gates: Gates
) -> None:
    """A row of the table for some gates."""
    accepted = [row for row in rows if gates.grade(row[VERDICTS_COLUMN]) == "acceptable"]
    right = sum(map(is_true, accepted))
    flips = [
        gates.grade(grading["gates"]) == "acceptable"
        for value in controls
        for grading in value["gradings"]
        if grading["kind"] == "flipped"
    ]
    false_on_failures = sum(not row["success"] and not is_true(row) for row in accepted)
    cells = [
        len(rows),
        sum(map(is_true, rows)),
        len(accepted),
        share_text(right, len(accepted)),
        share_text(len(accepted), len(rows)),
        f"{false_on_failures} of {len(accepted) - right}",
        share_text(sum(flips), len(flips)),
    ]
    print(f"| {label} | " + " | ".join(map(str, cells)) + " |", flush=True)


def is_true(row: Mapping[str, Any]) -> bool:
    """Whether a caption states the task and the outcome exactly."""
    caption = parse_caption(row["caption"])
    states_success = {"success": True, "failure": False}.get(caption.outcome)
    return caption.phrase == parse_caption(row["instruction"]).phrase and states_success == row["success"]


if __name__ == "__main__":
    main()
