"""Prints every bar of the judge of captions for a folder of simulated episodes, as tables.

Generate the episodes with the recipe of the reference models, a folder per part, with the seeds of `parts.yaml`: first
the successes, then with MATCH failures that are as long as the success of their task. Captions are true where they
state the task and its outcome exactly. Intervals are by drawing whole tasks.

.venv/bin/python -m benchmarks.grading EPISODES MODELS WORKSPACE --part test --paraphrases BLIND.yaml \
    --fitted-on DEVELOPMENT
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from annotators.attack import AttackRequest, run_attack
from annotators.base import Options
from annotators.success import load_combination
from ares.rubric import describe_trust
from ares.rubric.attacks import EXACT, FAMILIES, AttackResult, read_paraphrases
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from benchmarks.grading.bars import (
    HEADER,
    baseline_rows,
    caption_bars,
    family_bars,
    paraphrase_bars,
    text_bars,
)
from benchmarks.grading.captions import GradedCaption, read_captions, read_controls
from benchmarks.grading.parts import check_rows, read_rows
from benchmarks.success import (
    KINDS,
    SimulatedEpisode,
    make_record,
    print_areas,
    print_verdicts,
    read_examples,
    score_apart,
)

_GRADE = {"menu": "metaworld"}
_PARAPHRASES = Path(__file__).with_name("second_blind_paraphrases.yaml")
_COMBINATION = "clip"
_MOST_EPISODES = 1_000
# Families that every episode gets: few texts, or texts that every episode has.
_EVERYWHERE = (EXACT, "paraphrase", "flipped_outcome")


def main() -> None:
    """Print the tables."""
    args = _parse()
    rows = read_rows(args.episodes, args.part)
    print(f"part: {args.part}; {check_rows(rows)}\n", flush=True)
    with open_workspace(str(args.workspace), _settings(args.models)) as workspace:
        examples = _prepare(workspace, args.episodes, rows)
        if args.only_annotate:
            return
        (report,) = workspace.annotate("grade", options={"grade": _GRADE})
        trust, _ = read_controls(workspace, report.maker)
        captions = read_captions(workspace, report.maker, trust)
        tasks = {caption.episode_id: caption.task for caption in captions}
        print(f"{describe_trust(trust.to_json())}\n", flush=True)
        _print_captions(captions)
        _print_texts(workspace, args, tasks)
    if args.fitted_on:
        _print_success(args, examples)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("episodes", type=Path, help="folder of generated episodes")
    parser.add_argument("models", type=Path, help="folder of the reference models")
    parser.add_argument("workspace", type=Path, help="workspace, which is kept")
    parser.add_argument("--part", choices=("development", "threshold", "test"), required=True)
    parser.add_argument(
        "--paraphrases", type=Path, default=_PARAPHRASES, help="paraphrases by a blind author"
    )
    parser.add_argument("--battery", type=int, default=60, help="episodes that get every family")
    parser.add_argument("--per-family", type=int, default=2, help="texts of a family in one episode")
    parser.add_argument("--seed", type=int, default=20261124, help="of the texts of the battery")
    parser.add_argument(
        "--fitted-on", type=Path, help="folder of the development part, for weights without a kind"
    )
    parser.add_argument("--only-annotate", action="store_true", help="caption and success alone; no number")
    return parser.parse_args()


def _settings(models: Path) -> Settings:
    clip = f"local-dir:{models / 'reference-clip'}"
    captioner = f"hf:{models / 'reference-captioner'}"
    return Settings(embed_model=clip, caption_model=captioner, judge_model=f"clip:{clip}")


def _prepare(workspace: Workspace, folder: Path, rows: list[dict[str, Any]]) -> list[SimulatedEpisode]:
    """Add the episodes with what the simulator says of their outcome, their captions and their success."""
    records = [make_record(folder, row) for row in rows]
    known = [
        replace(record, episode=replace(record.episode, success=bool(row["success"])))
        for record, row in zip(records, rows, strict=True)
    ]
    workspace.stores.tables.episodes.add(known)
    workspace.annotate("caption")
    (report,) = workspace.annotate("success", options={"combination": _COMBINATION})
    return list(read_examples(workspace, rows, records, report.maker))


def _print_captions(captions: Sequence[GradedCaption]) -> None:
    _print_lines([HEADER, *(bar.row() for bar in caption_bars(captions))])
    _print_lines(baseline_rows(captions))


def _print_texts(workspace: Workspace, args: argparse.Namespace, tasks: Mapping[str, str]) -> None:
    digest = hashlib.sha256(args.paraphrases.read_bytes()).hexdigest()
    most = max(map(len, read_paraphrases(args.paraphrases).values()))
    everywhere = _attack(workspace, args, _MOST_EPISODES, most, _EVERYWHERE)
    battery = _attack(workspace, args, args.battery, args.per_family, ())
    for label, texts in (("all episodes", everywhere), ("the battery", battery)):
        print(f"{label}: {len(texts)} texts on {len({text.episode_id for text in texts})}, seed {args.seed}")
    print(f"paraphrases: {args.paraphrases.name}, SHA-256 {digest}\n")
    texts = [*everywhere, *(text for text in battery if text.family not in _EVERYWHERE)]
    bars = [*text_bars(texts, tasks), *paraphrase_bars(texts, tasks), *family_bars(texts, tasks)]
    _print_lines([HEADER, *(bar.row() for bar in bars)])
    for text in [text for text in texts if text.is_accepted and not _is_true(text)]:
        print(f"accepted: {text.family}: {text.text}")


def _attack(
    workspace: Workspace, args: argparse.Namespace, episodes: int, per_family: int, families: Sequence[str]
) -> list[AttackResult]:
    stores = workspace.stores
    request = AttackRequest(
        episodes=episodes,
        per_family=per_family,
        seed=args.seed,
        paraphrases=args.paraphrases,
        families=families,
    )
    options = Options(settings=stores.settings, values={"rubric": "caption", **_GRADE})
    return list(run_attack(stores, options, request, lambda done, total: None).graded)


def _is_true(text: AttackResult) -> bool:
    return FAMILIES[text.family].is_true


def _print_success(args: argparse.Namespace, examples: list[SimulatedEpisode]) -> None:
    """The area under the curve per kind of failure, by weights that saw no failure of that kind."""
    rows = read_rows(args.fitted_on, "development")
    path = args.workspace.with_name(f"{args.workspace.name}-development")
    with open_workspace(str(path), _settings(args.models)) as workspace:
        fitted_to = _prepare(workspace, args.fitted_on, rows)
    print()
    print_areas([(kind, score_apart(fitted_to, examples, kind)) for kind in KINDS])
    print_verdicts(load_combination(_COMBINATION), examples)


def _print_lines(lines: Iterator[str] | list[str]) -> None:
    print("\n".join(lines), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
