"""Lets judges grade a world through the command line, and reads what came of it."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ares.review import prepare_correction, store_prepared
from ares.settings import Settings
from ares.workspace import open_workspace
from tests.command_server import CommandServer
from tests.judges.marked_frames import write_dataset
from tests.judges.parameters import JudgeTrial
from tests.judges.server import JudgeServer
from tests.judges.world import COMMON_SLOTS, RARE_SLOTS, WorldEpisode, WorldSettings, make_world

# Runs of `annotate grade`, as a lab does after cut replies.
_MOST_RUNS = 3
_NOTES_SHARE = 0.2
_DATASET = "world"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldVariant:
    """A world as a lab has it.

    Attributes:
        settings: How it is made.
        is_labelled: Whether the source says which episodes succeeded.
        by_people: Whether people wrote its captions, so that they have no slots.
    """

    settings: WorldSettings
    is_labelled: bool = True
    by_people: bool = False

    @property
    def episodes(self) -> list[WorldEpisode]:
        """Its episodes."""
        return make_world(self.settings)


def world_variants(seed: int, episodes: int = 64) -> dict[str, WorldVariant]:
    """The worlds of `JudgeTrial.world` by name; episodes of all have numbers of their own."""
    common = WorldSettings(seed=seed, episodes=episodes, stated=COMMON_SLOTS)
    return {
        "labelled": WorldVariant(settings=common),
        "unlabelled": WorldVariant(
            settings=replace(common, seed=seed + 1, first_id=episodes), is_labelled=False
        ),
        "injected": WorldVariant(
            settings=replace(common, seed=seed + 2, first_id=2 * episodes, injected=_NOTES_SHARE)
        ),
        "people": WorldVariant(
            settings=replace(common, seed=seed + 3, first_id=3 * episodes, injected=0.1), by_people=True
        ),
        "rare": WorldVariant(
            settings=replace(common, seed=seed + 4, first_id=4 * episodes, stated=RARE_SLOTS)
        ),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Graded:
    """What became of one caption.

    Attributes:
        episode: The episode with its caption and truth.
        grade: The judge's word: "acceptable", "not_acceptable", "unsure", "error" or "" for none.
        acceptable: The column `acceptable`.
        verdicts: The verdicts of the gates as one text.
        calls: Calls with frames that a run without controls has paid for it.
    """

    episode: WorldEpisode
    grade: str
    acceptable: bool | None
    verdicts: str
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """What became of the captions of a world under one judge.

    Attributes:
        name: Name of the judge.
        trial: The judge and its world.
        tripwire: What `ares annotate grade` reports of its controls in the dataset.
        captions: Each caption.
        quoted: Calls, tokens in and tokens out of the dry run.
        renewed: Calls and tokens of the whole run as it said when a part was paid; (0, 0) where it did not.
        billed: Calls, tokens in and tokens out of the run.
        kinds: Number of calls that the server answered, by the first line of the request.
        text_calls: Calls without frames that a run without controls has paid.
        messages: What the commands said on standard error.
        refused: Why the command refused the judge, or "".
    """

    name: str
    trial: JudgeTrial
    tripwire: Mapping[str, Any] = field(default_factory=dict)
    captions: Sequence[Graded] = ()
    quoted: tuple[int, int, int] = (0, 0, 0)
    renewed: tuple[int, int] = (0, 0)
    billed: tuple[int, int, int] = (0, 0, 0)
    kinds: Mapping[str, int] = field(default_factory=dict)
    text_calls: int = 0
    messages: str = ""
    refused: str = ""

    @property
    def state(self) -> str:
        """What ARES says of it: "refuted", "not refuted", "not tested", or "refused"."""
        return "refused" if self.refused else str(self.tripwire.get("state", "not tested"))


class Grading:
    """Grades worlds, each copied from a workspace that has its captions; a context that ends its process.

    Args:
        folder: Where everything is written.
        server: The server with the judges.
        variants: The worlds.
        python: Interpreter that has `ares`.
    """

    def __init__(self, folder: Path, server: JudgeServer, variants: Mapping[str, WorldVariant]) -> None:
        self._folder, self._server, self._variants = folder, server, variants
        self._commands = CommandServer(sys.executable, folder)
        self._episodes = {name: variant.episodes for name, variant in variants.items()}

    def __enter__(self) -> Grading:
        return self

    def __exit__(self, *error: object) -> None:
        self._commands.close()

    def run(self, name: str, trial: JudgeTrial, *options: str, counts_calls: bool = False) -> TrialResult:
        """Let a judge grade its world.

        Args:
            name: Name of the judge in the server.
            trial: The judge and its world.
            options: More arguments of `ares annotate grade`.
            counts_calls: Whether it grades once more without controls, so that the calls of each caption are known.
        """
        own, texts = self._count_calls(name, trial) if counts_calls else ({}, 0)
        before = len(self._server.calls(name))
        command = self._copy(name, trial)
        try:
            result = self._grade(name, trial, [*command, *options], before)
        finally:
            shutil.rmtree(self.workspace_of(name), ignore_errors=True)
        captions = [replace(graded, calls=own.get(graded.episode.number, 0)) for graded in result.captions]
        return replace(result, captions=captions, text_calls=texts)

    def _copy(self, name: str, trial: JudgeTrial) -> list[str]:
        """A new copy of the world of a trial, and the command that grades it."""
        template, workspace = self._template(trial.world), self.workspace_of(name)
        shutil.rmtree(workspace, ignore_errors=True)
        shutil.copytree(template, workspace)
        return ["annotate", "grade", "--model", self._server.judge_spec(name), "-w", str(workspace), "--json"]

    def _count_calls(self, name: str, trial: JudgeTrial) -> tuple[dict[int, int], int]:
        """Calls with frames by episode, and calls without frames, of a run without controls."""
        self._commands.run(*self._copy(name, trial), "--calibrate", "no")
        calls = self._server.calls(name)
        about_frames = Counter(call.episode for call in calls if call.episode is not None)
        # The test call shows grey frames.
        texts = sum(call.episode is None for call in calls) - 1
        return {number: count for number, count in about_frames.items() if number is not None}, max(texts, 0)

    def workspace_of(self, name: str) -> Path:
        """The workspace of a judge."""
        return self._folder / f"graded-{name}"

    def _template(self, world: str) -> Path:
        folder, variant = self._folder / world, self._variants[world]
        workspace = folder / "workspace"
        if workspace.exists():
            return workspace
        data = write_dataset(folder / _DATASET, self._episodes[world], variant.is_labelled)
        self._ares("ingest", str(data), "-w", str(workspace))
        self._ares("annotate", "caption", "--model", self._server.captioner_spec, "-w", str(workspace))
        if variant.by_people:
            _let_people_caption(workspace)
        return workspace

    def _ares(self, *arguments: str) -> str:
        done = self._commands.run(*arguments)
        assert done.returncode == 0, f"ares {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def quote_second_run(self, name: str, trial: JudgeTrial, first: int) -> TrialResult:
        """Grade some captions of a world, then the rest: what is quoted and billed is of the rest alone.

        Args:
            name: Name of the judge in the server.
            trial: The judge and its world.
            first: Episodes of the first run.
        """
        command = self._copy(name, trial)
        try:
            done = self._commands.run(*command, "--limit", str(first), "--calibrate", "yes")
            if done.returncode not in (0, 1):
                return TrialResult(name=name, trial=trial, refused=done.stdout[-400:] + done.stderr[-400:])
            return self._grade(name, trial, command, len(self._server.calls(name)))
        finally:
            shutil.rmtree(self.workspace_of(name), ignore_errors=True)

    def _grade(self, name: str, trial: JudgeTrial, command: Sequence[str], before: int) -> TrialResult:
        quote = self._commands.run(*command, "--dry-run")
        messages, trust, bill = [quote.stderr], dict[str, Any](), (0, 0, 0)
        for _ in range(_MOST_RUNS):
            done = self._commands.run(*command)
            messages.append(done.stderr)
            if not done.stdout.strip():
                return TrialResult(
                    name=name, trial=trial, messages="\n".join(messages), refused=done.stderr[-400:]
                )
            report = json.loads(done.stdout)
            report = report[0] if isinstance(report, list) else report
            if "judge_trust" not in report:
                return TrialResult(
                    name=name, trial=trial, messages="\n".join(messages), refused=json.dumps(report)[:400]
                )
            trust = report["judge_trust"].get(_DATASET, trust)
            new = _costs(report)
            bill = (bill[0] + new[0], bill[1] + new[1], bill[2] + new[2])
            if not report["failed"] and not report["open"]:
                break
        calls = self._server.calls(name)[before:]
        return TrialResult(
            name=name,
            trial=trial,
            trust=trust if isinstance(trust, dict) else {"state": str(trust)},
            captions=self._read_captions(self.workspace_of(name), trial.world),
            quoted=_costs(json.loads(quote.stdout)) if quote.stdout.strip() else (0, 0, 0),
            renewed=_read_renewed("\n".join(messages)),
            billed=bill,
            kinds={kind: sum(call.kind == kind for call in calls) for kind in {call.kind for call in calls}},
            messages="\n".join(messages),
        )

    def _read_captions(self, workspace: Path, world: str) -> list[Graded]:
        wanted = ("acceptable", "grade", "grade_verdicts")
        with open_workspace(str(workspace), Settings()) as opened:
            episodes = opened.stores.tables.episodes
            known = set(episodes.columns())
            rows = episodes.read_columns(
                ["episode_id", "key", *(n for n in wanted if n in known)]
            ).to_pylist()
        by_key = {f"{episode.number:04d}.npz": episode for episode in self._episodes[world]}
        return [
            Graded(
                episode=by_key[row["key"]],
                grade=row.get("grade") or "",
                acceptable=row.get("acceptable"),
                verdicts=row.get("grade_verdicts") or "",
                calls=0,
            )
            for row in rows
        ]


def _costs(report: Any) -> tuple[int, int, int]:
    document = report[0] if isinstance(report, list) else report
    return round(document["calls"]), round(document["tokens_in"]), round(document["tokens_out"])


def _read_renewed(messages: str) -> tuple[int, int]:
    """Calls and tokens of a run by the last quote that it printed."""
    found = re.findall(
        r"([\d,]+) calls and ([\d,]+) tokens(?: \([^)]*\))? are paid; about ([\d,]+) calls and ([\d,]+) tokens",
        messages,
    )
    if not found:
        return 0, 0
    paid, read, left, unread = (int(number.replace(",", "")) for number in found[-1])
    return paid + left, read + unread


def _let_people_caption(workspace: Path) -> None:
    """Replace the captions by the same sentences as people write them, without slots."""
    with open_workspace(str(workspace), Settings()) as opened:
        stores = opened.stores
        ids = stores.tables.episodes.read_columns(["episode_id"]).to_pylist()
        captions = stores.annotations.find_annotations([row["episode_id"] for row in ids], ["caption"])
        for caption in captions:
            text = str(caption.value["text"])
            store_prepared(
                stores, prepare_correction(stores, caption, {"text": text, "caption": text}, "Ada")
            )
        opened.sync()
