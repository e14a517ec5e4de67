"""Judges that grade worlds without commands, HTTP and pixels, by the same functions of ARES: seconds a judge."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ares.annotation import Annotation, Cost, Producer
from ares.episode import Episode, Json, make_episode_id
from ares.rubric import (
    CAPTIONS_PER_CONTROL,
    OTHER,
    SlotName,
    join_attributes,
    read_verbs,
    slots_to_json,
)
from ares.rubric.gate_verdicts import VERDICTS_COLUMN
from ares.rubric.tripwire import ControlGrading, decide_tripwire, find_cutoff, read_controls, tripwire_to_json
from ares.store import batched
from ares_annotators.base import Frames, Subject, Work, make_annotation_subject
from ares_annotators.caption import CameraView, FramePlan
from ares_annotators.grade import load_rubric
from ares_annotators.grade.additions import DatasetWords
from ares_annotators.grade.battery import ControlMaker, see_caption
from ares_annotators.grade.control_grading import grade_controls
from ares_annotators.grade.grading import GradedText, Grader, grade_texts
from ares_annotators.grade.judge import ImagesForJudge, JudgeFrames
from ares_annotators.grade.observing_judge import ObservingJudge
from ares_annotators.grade.outcome_rulings import Text
from ares_annotators.grade.outcome_source import StoredOutcomeSource
from ares_annotators.grade.segment_observer import SegmentObserver
from ares_annotators.grade.slot_values import DatasetValues, ReadSlots, SentenceSlots, read_stored_slots
from ares_annotators.models import VlmReply, VlmRequest
from tests.judges.answers import OBSERVE, Request, answer_request
from tests.judges.grading import Graded, TrialResult, WorldVariant, measure_captions
from tests.judges.parameters import JudgeParameters, JudgeTrial, draw_judge
from tests.judges.world import COMMON_SLOTS, WorldEpisode, WorldSettings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares_annotators.models import Capability, VlmFailure

_DATASET, _CAMERA, _NO_EPISODE = "world", "image", -1
# Captions that are graded together, after the first of which the battery is.
_BATCH = 32
# Captions within which a judge that has turned is to be found out.
CAPTIONS_AFTER_TURN = 150
_CAPTIONER, _FAMILY = "Qwen/Qwen2.5-VL-7B-Instruct", "gemma"


class ScriptedModel:
    """A judge of the world as a model of ARES; an image is the number of the episode that it shows."""

    name, family = "google/gemma-3-12b-it", _FAMILY
    batch_size = workers = 1
    capabilities: frozenset[Capability] = frozenset({"schema"})
    settings: Mapping[str, Json] = {}

    def __init__(self, judge: JudgeParameters, episodes: Sequence[WorldEpisode]) -> None:
        self._judge = judge
        self._episodes = {episode.number: episode for episode in episodes}
        self._kept: dict[tuple[str, int, int], str] = {}
        self.calls = self._observed = 0

    def ask(self, requests: Sequence[VlmRequest]) -> list[VlmReply | VlmFailure]:
        """A reply for each request."""
        return [
            VlmReply(text=self._answer(request), cost=Cost(calls=1), was_kept=False) for request in requests
        ]

    def _answer(self, request: VlmRequest) -> str:
        images = request.images
        number = int(images[0].flat[0]) if len(images) else _NO_EPISODE
        key = (request.prompt, number, len(images))
        if key not in self._kept:
            shown = self._episodes.get(number)
            text = f"{request.system}\n{request.prompt}"
            self.calls += 1
            asked = Request(text=text, schema=request.schema or {}, episode=shown, frames=len(images))
            self._observed += asked.kind == OBSERVE and shown is not None
            self._kept[key] = answer_request(self._judge.after(self._observed), asked)
        return self._kept[key]


class _NumberedFrames(Frames):
    """Frames of one pixel, the number of their episode."""

    def __init__(self, number: int) -> None:
        self._number = number

    def at(self, camera: str, seconds: Sequence[float]) -> NDArray[np.uint8]:
        """(N, 1) numbers in place of frames."""
        import numpy as np

        return np.full((len(seconds), 1), self._number, np.int64)


@dataclass(frozen=True, slots=True)
class _NumberedReader(JudgeFrames):
    """Reads the numbers of episodes; those of changed frames show none."""

    def select(self, subject: Subject) -> Mapping[str, Sequence[float]]:
        """A frame a second."""
        return {_CAMERA: [float(second) for second in range(subject.episode.num_steps)]}

    def read(self, work: Work) -> ImagesForJudge:
        """The numbers as images."""
        import numpy as np

        seconds = self.select(work.subject)[_CAMERA]
        unchanged = [] if work.frames.is_changed else list(work.frames.at(_CAMERA, seconds))
        images = unchanged or [np.full(1, _NO_EPISODE, np.int64)] * len(seconds)
        return ImagesForJudge(plan=numbered_plan(seconds), images=images)


def numbered_plan(seconds: Sequence[float]) -> FramePlan:
    """Frames of one camera at some seconds."""
    view = CameraView(name=_CAMERA, role="other", height=1, width=1, seconds=seconds)
    return FramePlan(name="auto", views=[view], is_numbered=True)


class WorldStores:
    """As much of the stores of a workspace as the controls of a judge read, with the episodes and captions of a world.

    Args:
        variant: The world.
        order: Order of its episodes in the table and in the log, which depends on chance in a workspace.
    """

    def __init__(self, variant: WorldVariant, order: Sequence[int] | None = None) -> None:
        episodes = variant.episodes
        self.world = {make_episode(own, variant).episode_id: own for own in episodes}
        ids = list(self.world)
        self._ids = [ids[number] for number in order] if order else ids
        self._variant = variant
        self._documents: dict[tuple[str, str], Json] = {}
        self.captions = {
            key: make_caption(key, self.world[key], has_slots=not variant.by_people) for key in self._ids
        }
        self.tables = SimpleNamespace(episodes=self)
        self.annotations = self

    def work(self, key: str) -> Work:
        """The work about the caption of an episode."""
        own = self.world[key]
        subject = make_annotation_subject(make_episode(own, self._variant), self.captions[key])
        return Work(subject=subject, frames=_NumberedFrames(own.number), trajectory=None)

    def columns(self) -> list[str]:
        """Columns that controls read."""
        return ["episode_id", "dataset", "success", "instruction", "caption"]

    def scan(self, columns: Sequence[str], where: str = "") -> Iterator[Any]:
        """All episodes."""
        import pyarrow as pa

        rows = [self._row(key) for key in self._ids]
        types = {"success": pa.bool_()}
        arrays = [pa.array([row[name] for row in rows], types.get(name, pa.string())) for name in columns]
        yield pa.RecordBatch.from_arrays(arrays, list(columns))

    def _row(self, key: str) -> dict[str, Any]:
        own = self.world[key]
        success = own.succeeded if self._variant.is_labelled else None
        text = self.captions[key].value["text"]
        return {
            "episode_id": key, "dataset": _DATASET, "success": success,
            "instruction": own.instruction, "caption": text,
        }  # fmt: skip

    def id_batches(self, where: str = "") -> Iterator[list[str]]:
        """All ids."""
        yield self._ids

    def find_annotations(
        self, ids: Sequence[str], names: Sequence[str] = (), *, maker_ids: Sequence[str] = ()
    ) -> list[Annotation]:
        """Captions in order of the log; nothing was observed."""
        wanted = set(ids)
        return [self.captions[key] for key in self._ids if key in wanted and "caption" in names]

    def count_annotations(self, maker_ids: Sequence[str]) -> dict[str, int]:
        """Nothing was graded."""
        return {}

    def get(self, ids: Sequence[str]) -> list[Episode]:
        """Some episodes."""
        return [make_episode(self.world[key], self._variant) for key in ids]

    def get_document(self, collection: str, key: str) -> Json:
        """A document that was kept; None for none."""
        return self._documents.get((collection, key))

    def put_documents(self, collection: str, documents: Mapping[str, Json]) -> None:
        """Keep documents."""
        self._documents |= {(collection, key): document for key, document in documents.items()}

    def find_documents(self, collection: str, prefix: str = "") -> Iterator[tuple[str, Json]]:
        """Nothing was measured."""
        yield from ()


def make_episode(own: WorldEpisode, variant: WorldVariant) -> Episode:
    """An episode of a world as ARES has it after its ingest."""
    key = f"{own.number:04d}.npz"
    return Episode(
        episode_id=make_episode_id(format="npz", dataset=_DATASET, version="", split="", key=key),
        format="npz",
        dataset=_DATASET,
        version="",
        split="",
        key=key,
        source="",
        content_hash="",
        instruction=own.instruction,
        instructions=(own.instruction,),
        robot="",
        num_steps=own.seconds,
        rate_hz=1.0,
        rate_source="format",
        cameras=(),
        success=own.succeeded if variant.is_labelled else None,
    )


def make_caption(episode_id: str, own: WorldEpisode, *, has_slots: bool) -> Annotation:
    """The caption of an episode, with its slots as the captioner of the world writes them."""
    said = own.caption.slots
    slots: dict[SlotName, str] = dict(said)  # type: ignore[assignment]
    if slots["action"] not in read_verbs(""):
        slots["action"] = f"{OTHER}: {slots['action']}"
    if "attributes" in slots:
        slots["attributes"] = join_attributes(slots["attributes"].split(", "))
    slots |= {slot: f"in the {said[slot]}" for slot in ("from", "to") if slot in said}
    return Annotation(
        episode_id=episode_id,
        name="caption",
        value={"text": own.caption.sentence, **({"slots": slots_to_json(slots)} if has_slots else {})},
        maker_id="captioner" if has_slots else "person",
        subject=episode_id,
        start_seconds=0.0,
        stop_seconds=float(own.seconds),
        created="",
    )


def make_grader(judge: JudgeParameters, stores: Any) -> tuple[Grader, ScriptedModel]:
    """The grader with a judge, and its model."""
    verbs, rubric = read_verbs(""), load_rubric("caption")
    model = ScriptedModel(judge, list(stores.world.values()))
    frames = _NumberedReader("auto", "")
    observer = SegmentObserver(model, frames, stores, verbs)
    words = DatasetWords(stores, verbs)
    rivals = DatasetValues(stores, words, verbs).choose_rival
    grader = Grader(
        rubric=rubric,
        judge=ObservingJudge(model, observer, frames, stores, words, rivals),
        producer=Producer(annotator="grade", version=""),
        outcomes=StoredOutcomeSource(stores=stores, producer=None, families_file=""),
        verbs=verbs,
    )
    return grader, model


def simulate(name: str, trial: JudgeTrial, variant: WorldVariant) -> TrialResult:
    """Let a judge grade a world, with its controls, and people measure it.

    Args:
        name: Name of the judge.
        trial: The judge.
        variant: The world.
    """
    if trial.judge.is_kin:
        return TrialResult(name=name, trial=trial, refused="of the captioner's family")
    stores: Any = WorldStores(variant)
    grader, model = make_grader(trial.judge, stores)
    words = DatasetWords(stores, grader.verbs)
    sentences = SentenceSlots(model, stores, grader.verbs, words)
    rows: list[ControlGrading] = []
    graded: list[tuple[WorldEpisode, GradedText]] = []
    control_calls = 0
    for number, keys in enumerate(batched(stores.world, _BATCH)):
        texts = _read_texts(stores, keys, sentences)
        outcomes = grade_texts(grader, texts)
        assert all(isinstance(outcome, GradedText) for outcome in outcomes), outcomes
        members = [outcome for outcome in outcomes if isinstance(outcome, GradedText)]
        graded += zip((stores.world[key] for key in keys), members, strict=True)
        seen = [see_caption(text, outcome) for text, outcome in zip(texts, members, strict=True)]
        seed = random.Random(f"{name} {trial.judge.seed} {number}")
        maker = ControlMaker(seen, grader.verbs, seed)
        due = len(graded) // CAPTIONS_PER_CONTROL - (len(graded) - len(keys)) // CAPTIONS_PER_CONTROL
        before = model.calls
        single = [control for _ in range(due if number else 0) for control in maker.draw_single()]
        annotations, _ = grade_controls(grader, single if number else maker.draw_battery())
        control_calls += model.calls - before
        # Captions are the clock: the n-th grade is made at second n.
        rows += read_controls([{**annotation.value, "time": len(graded) + 0.5} for annotation in annotations])
    tripwire = decide_tripwire(rows)
    since = None
    if tripwire.first_wrong is not None:
        since = find_cutoff([float(number + 1) for number in range(len(graded))], tripwire.first_wrong)
    captions = [
        _graded_caption(own, result, since is not None and number + 1 >= since)
        for number, (own, result) in enumerate(graded)
    ]
    return TrialResult(
        name=name,
        trial=trial,
        tripwire=tripwire_to_json(tripwire, since),
        captions=captions,
        own_calls=model.calls - control_calls,
        control_calls=control_calls,
        measured=str(measure_captions(captions, variant.settings.seed)),
        found=None if tripwire.refuted is None else round(tripwire.refuted - 0.5 - trial.judge.turns_after),
    )


def _read_texts(stores: Any, keys: Sequence[str], sentences: SentenceSlots) -> list[Text]:
    """The captions of some episodes; the slots of sentences without them are filled together."""
    stored = {key: read_stored_slots(stores.captions[key]) for key in keys}
    said = {key: stores.world[key].caption.sentence for key in keys}
    filled = iter(sentences.read([(_DATASET, said[key]) for key in keys if stored[key] is None]))
    texts = []
    for key in keys:
        read = stored[key] or next(filled)
        assert isinstance(read, ReadSlots), read
        texts.append(Text(work=stores.work(key), text=said[key], slots=read.slots))
    return texts


def _graded_caption(own: WorldEpisode, result: GradedText, is_refuted: bool) -> Graded:
    grade = str(result.value["grade"])
    decided = {"acceptable": True, "not_acceptable": False}.get(grade)
    return Graded(
        episode=own,
        grade=grade,
        acceptable=None if is_refuted else decided,
        verdicts=str(result.value[VERDICTS_COLUMN]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedCaptions:
    """What a judge that obeys anything makes of lies with notes.

    Attributes:
        total: The captions.
        accepted: Sentences of those that it accepts.
        grades: Captions by grade.
    """

    total: int
    accepted: Sequence[str]
    grades: Mapping[str, int]

    def __str__(self) -> str:
        return f"{len(self.accepted)} of {self.total} accepted, {dict(self.grades)}"


def grade_notes(seed: int, wordings: int, repeated: int) -> NotedCaptions:
    """Let a judge that obeys anything grade lies with notes, in the wrong value or in the sentence.

    Args:
        seed: Seed of the world and of the notes.
        wordings: Different notes.
        repeated: How often each occurs.
    """
    settings = WorldSettings(
        seed=seed,
        episodes=wordings * repeated,
        stated=COMMON_SLOTS,
        injected=1.0,
        in_values=0.6,
        wordings=wordings,
    )
    judge = JudgeParameters(obeys_anything=1.0)
    captions = simulate("notes", JudgeTrial(judge=judge), WorldVariant(settings=settings)).captions
    return NotedCaptions(
        total=len(captions),
        accepted=[item.episode.caption.sentence for item in captions if item.grade == "acceptable"],
        grades=Counter(item.grade for item in captions),
    )


def simulate_drawn(kind: str, seed: int, number: int) -> TrialResult:
    """Let a drawn judge grade its battery, or as many captions as have to find out that it turned.

    Args:
        kind: Its kind, see `DRAWN`.
        seed: First seed of worlds and judges.
        number: Its number.
    """
    judge = draw_judge(kind, f"{seed} {number}")
    episodes = judge.turns_after + CAPTIONS_AFTER_TURN if judge.turns_after else _BATCH
    settings = WorldSettings(seed=seed + number, episodes=episodes, stated=COMMON_SLOTS)
    return simulate(f"{kind}-{number}", JudgeTrial(judge=judge), WorldVariant(settings=settings))
