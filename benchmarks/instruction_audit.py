"""Measures the instruction audit: how many swapped instructions it names, and how many of the right ones.

Generate episodes with the recipe of the reference models, in a folder per part; RESULTS.md says seeds and tasks. A
tenth of the instructions is exchanged across tasks, and as many wordings within tasks, which are no faults.

.venv/bin/python -m benchmarks.instruction_audit --metaworld EPISODES/test MODELS WORKSPACE --draws 20
.venv/bin/python -m benchmarks.instruction_audit --real FOLDER MODELS WORKSPACE
.venv/bin/python -m benchmarks.instruction_audit --made-up --draws 5
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ares.review import (
    AuditedEpisode,
    InstructionAudit,
    judge_instructions,
    read_audited_episodes,
    read_features,
)
from ares.search import find_embedding_space
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from benchmarks.grading import make_record

_WORDINGS = ("{}", "use the arm to {}")
_SHARE_SWAPPED, _RESAMPLES = 0.1, 2_000
_MADE_UP_TASKS, _MADE_UP_EPISODES, _MADE_UP_DIMENSIONS = 10, 10, 32


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnTexts:
    """Episodes with some instructions exchanged.

    Attributes:
        episodes: The episodes as the audit reads them.
        tasks: True task of each.
        across: Ids of those with the instruction of another task.
        within: Ids of those that exchanged the wording with another of their task.
    """

    episodes: Sequence[AuditedEpisode]
    tasks: Sequence[str]
    across: frozenset[str]
    within: frozenset[str]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--metaworld", nargs=3, type=Path, metavar=("EPISODES", "MODELS", "WORKSPACE"))
    parser.add_argument("--real", nargs=3, type=Path, metavar=("FOLDER", "MODELS", "WORKSPACE"))
    parser.add_argument("--made-up", action="store_true", help="vectors of a made-up world")
    parser.add_argument("--draws", type=int, default=20, help="draws of what is exchanged")
    args = parser.parse_args()
    if args.real:
        print_real(*args.real)
        return
    failures = find_failures(args.metaworld[0]) if args.metaworld else frozenset()
    episodes, features = read_metaworld(*args.metaworld) if args.metaworld else make_up()
    print(
        "| wordings a task | exchanged across tasks, named | and the task right | rest named "
        "| failures exchanged, named | failures of the rest, named |"
    )
    print("|---|---|---|---|---|---|")
    for wordings in (1, 2):
        print(measure_row(episodes, features, wordings, args.draws, failures))
    shuffled = shuffle_texts(episodes)
    audit = judge_instructions(_no_audit(), shuffled, features)
    print(
        f"\nall instructions exchanged at random: {audit.verdict}, {len(audit.findings)} named; {audit.reason}"
    )
    for task_count, wordings in itertools.product((2, 5), (1, 2)):
        print(measure_small_datasets(episodes, features, task_count, wordings))


def _no_audit() -> InstructionAudit:
    return InstructionAudit(dataset="simulated", verdict="unsure")


def _read_recipe(folder: Path) -> list[dict[str, Any]]:
    lines = (line for path in sorted(folder.glob("meta_*.jsonl")) for line in path.read_text().splitlines())
    return [json.loads(line) for line in lines]


def find_failures(folder: Path) -> frozenset[str]:
    """Ids of the episodes of the recipe that fail."""
    failures = (row for row in _read_recipe(folder) if not row["success"])
    return frozenset(make_record(folder, row).episode.episode_id for row in failures)


def read_metaworld(
    folder: Path, models: Path, workspace: Path
) -> tuple[list[AuditedEpisode], NDArray[np.float16]]:
    """Episodes of the recipe with features of their front camera and signals."""
    rows = _read_recipe(folder)
    with open_workspace(str(workspace), Settings(embed_model=f"local-dir:{models / 'reference-clip'}")) as ws:
        known = ws.stores.tables.episodes.ids()
        records = [make_record(folder, row) for row in rows]
        new = [
            replace(
                record,
                episode=replace(record.episode, cameras=record.episode.cameras[:1]),
            )
            for record in records
            if record.episode.episode_id not in known
        ]
        if new:
            ws.stores.tables.episodes.add(new)
        ws.annotate("embed", "motion")
        return _read_features(ws)


def _read_features(ws: Workspace) -> tuple[list[AuditedEpisode], NDArray[np.float16]]:
    episodes = list(read_audited_episodes(ws.stores, ""))
    ids, space = [episode.episode_id for episode in episodes], find_embedding_space(ws.stores).name
    features = read_features(ws.stores, ids, space)
    if features is None or not features.is_seen.all():
        raise ValueError("episodes without frame vectors")
    return episodes, features.values


def make_up(seed: int = 0) -> tuple[list[AuditedEpisode], NDArray[np.float16]]:
    """Episodes of tasks whose features lie around means of their own."""
    rng = np.random.default_rng(seed)
    means = rng.normal(0, 1.0, (_MADE_UP_TASKS, _MADE_UP_DIMENSIONS))
    tasks = np.repeat(np.arange(_MADE_UP_TASKS), _MADE_UP_EPISODES)
    features = means[tasks] + rng.normal(0, 0.4, (len(tasks), _MADE_UP_DIMENSIONS))
    texts = [f"do the thing number {task}" for task in tasks]
    episodes = [
        AuditedEpisode(episode_id=f"{row:016x}", text=text, counting=text, content=row)
        for row, text in enumerate(texts)
    ]
    return episodes, features.astype(np.float16)


def draw_texts(episodes: Sequence[AuditedEpisode], wordings: int, seed: int) -> DrawnTexts:
    """Exchange a tenth of the instructions across tasks, and as many wordings within tasks."""
    generator, tasks = random.Random(seed), [episode.text for episode in episodes]
    texts = [generator.choice(_WORDINGS[:wordings]).format(task) for task in tasks]
    count = round(_SHARE_SWAPPED * len(episodes))
    across: list[int] = []
    order: list[int] = []
    # Of few tasks some draws have no exchange that gives every episode another task.
    while any(tasks[one] == tasks[two] for one, two in zip(across, order, strict=True)) or not across:
        drawn = generator.sample(range(len(episodes)), 2 * count)
        across, within = drawn[:count], drawn[count:]
        order = generator.sample(across, count)
    said = dict(zip(across, [texts[row] for row in order], strict=True))
    said |= {row: next(text for text in _other_wordings(texts[row], tasks[row], wordings)) for row in within}
    changed = [
        episode._replace(text=said.get(row, text), counting=said.get(row, text))
        for row, (episode, text) in enumerate(zip(episodes, texts, strict=True))
    ]
    ids = [episode.episode_id for episode in episodes]
    return DrawnTexts(
        episodes=changed,
        tasks=tasks,
        across=frozenset(ids[row] for row in across),
        within=frozenset(ids[row] for row in within),
    )


def _other_wordings(text: str, task: str, wordings: int) -> Iterator[str]:
    """Yield the other wordings of a task, or the same where there is one."""
    every = [form.format(task) for form in _WORDINGS[:wordings]]
    yield from (other for other in every if other != text or wordings == 1)


def measure_row(
    episodes: Sequence[AuditedEpisode],
    features: NDArray[np.float16],
    wordings: int,
    draws: int,
    failures: Collection[str],
) -> str:
    """A row of the table, with 95 % intervals by drawing whole episodes, and whole tasks."""
    counts: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    tasks: dict[str, str] = {}
    for seed in range(draws):
        drawn = draw_texts(episodes, wordings, seed)
        audit = judge_instructions(_no_audit(), drawn.episodes, features)
        proposed = {finding.episode_id: finding.proposed for finding in audit.findings}
        for episode, task in zip(drawn.episodes, drawn.tasks, strict=True):
            key, is_across = episode.episode_id, episode.episode_id in drawn.across
            tasks[key], is_named = task, key in proposed
            kinds = ["across" if is_across else "rest"]
            kinds += ["failures across" if is_across else "failures of the rest"] * (key in failures)
            for name in kinds:
                counts[name][key][0] += is_named
                counts[name][key][1] += 1
            if is_across and is_named:
                is_right = proposed[key].casefold().endswith(task.casefold())
                counts["right"][key][0] += is_right
                counts["right"][key][1] += 1
    names = ("across", "right", "rest", "failures across", "failures of the rest")
    return f"| {wordings} | {' | '.join(format_counts(counts[name], tasks) for name in names)} |"


def format_counts(counts: Mapping[str, Sequence[int]], tasks: Mapping[str, str]) -> str:
    """A share of counts (hits, total) by episode, with its interval by episode and by task."""
    if not counts:
        return "none"
    table = np.array(list(counts.values()))
    codes = np.unique([tasks[key] for key in counts], return_inverse=True)[1]
    of_tasks = np.zeros((codes.max() + 1, 2), np.int64)
    np.add.at(of_tasks, codes, table)
    hits, total = table.sum(axis=0)
    by_episode, by_task = (draw_interval(rows) for rows in (table, of_tasks))
    return f"{hits}/{total} = {hits / total:.3f} ({by_episode}; tasks {by_task})"


def draw_interval(table: NDArray[np.int64]) -> str:
    """The 95 % interval of a share by drawing the rows (hits, total) of a table with replacement."""
    rows = np.random.default_rng(0).integers(0, len(table), (_RESAMPLES, len(table)))
    sums = table[rows].sum(axis=1)
    low, high = np.quantile(sums[:, 0] / np.maximum(sums[:, 1], 1), (0.025, 0.975))
    return f"{low:.3f}-{high:.3f}"


def shuffle_texts(episodes: Sequence[AuditedEpisode], seed: int = 0) -> list[AuditedEpisode]:
    """The episodes with their instructions in random order: nothing can be told of them."""
    texts = [episode.text for episode in episodes]
    random.Random(seed).shuffle(texts)
    return [episode._replace(text=text, counting=text) for episode, text in zip(episodes, texts, strict=True)]


def measure_small_datasets(
    episodes: Sequence[AuditedEpisode], features: NDArray[np.float16], task_count: int, wordings: int
) -> str:
    """A line on datasets of so many tasks each, with a tenth of the instructions exchanged."""
    tasks = list(dict.fromkeys(episode.text for episode in episodes))
    random.Random(0).shuffle(tasks)
    found = swapped = named = rest = unsure = datasets = 0
    for start in range(0, len(tasks) - task_count + 1, task_count):
        own = set(tasks[start : start + task_count])
        rows = [row for row, episode in enumerate(episodes) if episode.text in own]
        drawn = draw_texts([episodes[row] for row in rows], wordings, start)
        audit = judge_instructions(_no_audit(), drawn.episodes, features[rows])
        ids = {finding.episode_id for finding in audit.findings}
        found, swapped = found + len(ids & drawn.across), swapped + len(drawn.across)
        named, rest = named + len(ids - drawn.across), rest + len(rows) - len(drawn.across)
        datasets, unsure = datasets + 1, unsure + (audit.verdict == "unsure")
    return (
        f"{datasets} datasets of {task_count} tasks, wordings {wordings}: {found}/{swapped} named, "
        f"{named}/{rest} of the rest; {unsure} unsure"
    )


def print_real(folder: Path, models: Path, workspace: Path) -> None:
    """Print the audit of a dataset as it is published."""
    settings = Settings(embed_model=f"local-dir:{models / 'reference-clip'}")
    with open_workspace(str(workspace), settings) as ws:
        ws.ingest(str(folder))
        ws.annotate("embed", "motion")
        for audit in ws.review.audit_instructions():
            print(audit)


if __name__ == "__main__":
    main()
