"""Lets judges grade a world through the command line, and reads what came of it."""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ares.errors import RequestError
from ares.review import MeasuredShare, store_prepared
from ares.review.labels import prepare_correction
from ares.rubric import CONTROL
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
# People answer about so many captions, of which every fourth is a refused one.
ANSWERS, _PER_REFUSED = 120, 4
# A world that lasts until a judge that has changed is found out.
_LONG = 3


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


def world_variants(seed: int, episodes: int = 120) -> dict[str, WorldVariant]:
    """The worlds of `JudgeTrial.world` by name; episodes of all have numbers of their own."""
    common = WorldSettings(seed=seed, episodes=episodes, stated=COMMON_SLOTS)
    with_notes = replace(common, seed=seed + 2, injected=_NOTES_SHARE, in_values=0.5)
    of_people = replace(common, seed=seed + 3, injected=0.1)
    worlds = {
        "labelled": WorldVariant(settings=common),
        "unlabelled": WorldVariant(settings=replace(common, seed=seed + 1), is_labelled=False),
        "injected": WorldVariant(settings=with_notes),
        "people": WorldVariant(settings=of_people, by_people=True),
        "rare": WorldVariant(settings=replace(common, seed=seed + 4, stated=RARE_SLOTS)),
        "long": WorldVariant(settings=replace(common, seed=seed + 5, episodes=_LONG * episodes)),
    }
    first = 0
    for name, world in worlds.items():
        worlds[name] = replace(world, settings=replace(world.settings, first_id=first))
        first += world.settings.episodes
    return worlds


@dataclass(frozen=True, slots=True, kw_only=True)
class Graded:
    """What became of one caption.

    Attributes:
        episode: The episode with its caption and truth.
        grade: The judge's word: "acceptable", "not_acceptable", "unsure", "error" or "" for none.
        acceptable: The column `acceptable`.
        verdicts: The verdicts of the gates as one text.
    """

    episode: WorldEpisode
    grade: str
    acceptable: bool | None
    verdicts: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """What became of the captions of a world under one judge.

    Attributes:
        name: Name of the judge.
        trial: The judge and its world.
        tripwire: What its controls say, see `ares.rubric.tripwire_to_json`.
        captions: Each caption.
        own_calls: Calls that were paid for captions.
        control_calls: Calls that were paid for controls.
        measured: What people measured, in the words of ARES; "" where nobody did.
        refused: Why the command refused the judge, or "".
        found: Captions that it graded after it turned before it was refuted; None where it was not.
    """

    name: str
    trial: JudgeTrial
    tripwire: Mapping[str, Any] = field(default_factory=dict)
    captions: Sequence[Graded] = ()
    own_calls: int = 0
    control_calls: int = 0
    measured: str = ""
    refused: str = ""
    found: int | None = None

    @property
    def state(self) -> str:
        """What ARES says of it: "refuted", "not refuted", "not tested", or "refused"."""
        return "refused" if self.refused else str(self.tripwire.get("state", "not tested"))


def measure_captions(captions: Sequence[Graded], seed: int) -> MeasuredShare:
    """What people would measure who tell the truth about captions that are drawn as `ares review measure` does."""
    dice = random.Random(f"people {seed}")
    accepted = [item for item in captions if item.grade == "acceptable"]
    refused = [item for item in captions if item.grade == "not_acceptable"]
    asked = dice.sample(refused, min(len(refused), ANSWERS // _PER_REFUSED))
    drawn = dice.sample(accepted, min(len(accepted), ANSWERS - len(asked)))
    return MeasuredShare(
        dataset=_DATASET,
        question="caption",
        what=("accepted captions", "true"),
        answers=len(drawn),
        true=sum(item.episode.caption.is_true for item in drawn),
        drawn_from=len(accepted),
        people=("Ada",),
        refused=len(asked),
        refused_true=sum(item.episode.caption.is_true for item in asked),
        measured=len(accepted),
        accepted=len(accepted),
        total=len(captions),
    )


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

    def run(self, name: str, trial: JudgeTrial, *options: str) -> TrialResult:
        """Let a judge grade its world, and people measure it.

        Args:
            name: Name of the judge in the server.
            trial: The judge and its world.
            options: More arguments of `ares annotate grade`.
        """
        template, workspace = self._template(trial.world), self.workspace_of(name)
        shutil.rmtree(workspace, ignore_errors=True)
        shutil.copytree(template, workspace)
        spec = self._server.judge_spec(name)
        command = ["annotate", "grade", "--model", spec, "-w", str(workspace), "--json", *options]
        try:
            return self._grade(name, trial, command)
        finally:
            shutil.rmtree(workspace, ignore_errors=True)

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

    def _grade(self, name: str, trial: JudgeTrial, command: Sequence[str]) -> TrialResult:
        tripwire, calls = dict[str, Any](), 0
        for _ in range(_MOST_RUNS):
            done = self._commands.run(*command)
            report = json.loads(done.stdout) if done.stdout.strip() else {}
            report = report[0] if isinstance(report, list) else report
            if "judge_tripwire" not in report:
                return TrialResult(name=name, trial=trial, refused=done.stdout[-400:] + done.stderr[-400:])
            tripwire = report["judge_tripwire"].get(_DATASET, tripwire)
            calls += round(report["calls"])
            if not report["failed"] and not report["open"]:
                break
        workspace = self.workspace_of(name)
        captions, control_calls = self._read_captions(workspace, trial.world), _count_control_calls(workspace)
        return TrialResult(
            name=name,
            trial=trial,
            tripwire=tripwire,
            captions=captions,
            own_calls=calls - control_calls,
            control_calls=control_calls,
            measured=self._measure(workspace, trial.world),
        )

    def _measure(self, workspace: Path, world: str) -> str:
        """What `ares review measure` says after the answers of somebody who knows the truth."""
        by_key = {f"{episode.number:04d}.npz": episode for episode in self._episodes[world]}
        with open_workspace(str(workspace), Settings()) as opened:
            rows = opened.stores.tables.episodes.read_columns(["episode_id", "key"]).to_pylist()
            truths = {row["episode_id"]: by_key[row["key"]].caption.is_true for row in rows}
            try:
                measurement = opened.review.measure(_DATASET, person="Ada")
                for _ in range(ANSWERS):
                    # It is asked on where a measurement would end.
                    item = measurement.queue.next("Ada")
                    if item is None:
                        break
                    verdict = "met" if truths[item.episode_id] else "unmet"
                    measurement.answer(item, verdict, shown=True)
            except RequestError as error:
                return str(error)
            opened.sync()
            return str(measurement.share)

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
            )
            for row in rows
        ]


def _count_control_calls(workspace: Path) -> int:
    with open_workspace(str(workspace), Settings()) as opened:
        annotations = opened.stores.annotations
        ids = list(annotations.find_episodes(CONTROL))
        controls = annotations.find_annotations(ids, [CONTROL]) if ids else []
        values: list[Any] = [control.value for control in controls]
    return sum(row.get("calls", 0) for value in values for row in value["gradings"])


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
