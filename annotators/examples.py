"""Answers that people confirmed of the nearest other episodes, which a model is shown before it answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from pydantic import Field

from ares.annotation import ATTRIBUTE_PREFIX
from ares.clock import compute_camera_rate_hz
from ares.curation import DUPLICATE_GROUP, read_sides
from ares.errors import MediaError, RequestError
from ares.review import is_about_attribute, list_answers
from ares.search import SPACE_PREFIX, list_embedding_spaces
from ares.store import batched, ids_filter, original_answer_id
from ares_annotators.base import make_episode_subject, read_work
from ares_annotators.models import LocalModelOptions, ReadableImages, VlmRequest, estimate_image_tokens
from ares_annotators.prompting import escape_json, read_prompt

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Json
    from ares.store import Stores
    from ares_annotators.base import Subject, Work


_COLUMNS = ("episode_id", "content_hash", "duplicate_of", DUPLICATE_GROUP, "split", "instruction")
_FRAMES = 3
# For estimates only.
_PROMPT_TOKENS, _ANSWER_TOKENS = 60, 40
# Columns by whose values two episodes are copies of each other.
_COPIES = ("content_hash", "duplicate_of", DUPLICATE_GROUP)
# Images of examples that are kept in memory, and episodes whose vectors or annotations are read at once.
_MOST_IMAGES, _EPISODES_PER_READ = 64, 500

# What people confirmed of an episode, by its id.
Confirmed = Mapping[str, Mapping[str, "Json"]]


class ExampleOptions(LocalModelOptions):
    """Options of an annotator that shows its model examples."""

    not_in_producer: ClassVar[frozenset[str]] = LocalModelOptions.not_in_producer | {"examples"}

    examples: int = Field(
        default=0,
        ge=0,
        le=8,
        description="nearest other episodes that the model is shown, with what people confirmed of them",
    )

    def producer_settings(self) -> dict[str, Json]:
        """As of other options: the number of examples is part, and not which they are."""
        return super().producer_settings() | ({"examples": self.examples} if self.examples else {})

    def load_examples(self, stores: Stores, read: Callable[[Stores], Confirmed]) -> ConfirmedExamples | None:
        """The examples of what people confirmed, which `read` returns; None where none are asked for.

        Raises:
            RequestError: People have confirmed nothing of that kind.
        """
        return ConfirmedExamples(stores, self.examples, read(stores)) if self.examples else None


class ShownExamples(NamedTuple):
    """Examples for one request.

    Attributes:
        episode_ids: The episodes, the nearest first.
        prompt: What follows the prompt; "" without an example.
        images: An image of each, (H, W, 3) uint8.
    """

    episode_ids: Sequence[str] = ()
    prompt: str = ""
    images: Sequence[NDArray[np.uint8]] = ()

    def add_to(self, request: VlmRequest) -> VlmRequest:
        """A request with the examples behind its images and its words."""
        if not self.images:
            return request
        own = request.images
        release = own.release if isinstance(own, ReadableImages) else None
        images = ReadableImages(lambda: [*own, *self.images], release)
        return replace(request, prompt=request.prompt + self.prompt, images=images)


class ConfirmedExamples:
    """Finds the nearest episodes of which people confirmed an answer: no copies, and none of another side of a split.

    Args:
        stores: Stores of the workspace.
        count: Most examples of one request.
        answers: What people confirmed.

    Raises:
        RequestError: People have confirmed nothing.
    """

    def __init__(self, stores: Stores, count: int, answers: Confirmed) -> None:
        if not answers:
            detail = "`ares review` asks people"
            raise RequestError("people have confirmed nothing that can be an example", detail)
        self._stores, self._count, self._answers = stores, count, answers
        # By name of a set the side of each content in its split.
        self._sides = read_sides(stores.annotations)
        self._rows = self._read_rows(answers)
        motion = (name for name in stores.tables.spaces() if name.startswith(SPACE_PREFIX))
        spaces = [*reversed(list_embedding_spaces(stores)), *motion]
        self._vectors = {name: read for name in spaces if (read := self._read_unit_vectors(name))[0]}
        self._draw, self._lock = lru_cache(_MOST_IMAGES)(self._read_image), Lock()

    def find(self, episode_ids: Sequence[str]) -> list[ShownExamples]:
        """The examples for each of some episodes, nearest by looks; else by motion, else by words of their tasks."""
        import numpy as np

        rows, nearest = self._read_rows(episode_ids), dict[str, list[str]]()
        for space, (known, vectors) in self._vectors.items():
            left = [key for key in episode_ids if key not in nearest]
            for key, mean in self._stores.tables.vectors(space).mean_vectors(left).items():
                nearest[key] = [known[index] for index in np.argsort(-(vectors @ mean), kind="stable")]
        for key in episode_ids:
            nearest.setdefault(key, self._sort_by_words(rows[key]))
        return [self._show(rows[key], nearest[key]) for key in episode_ids]

    def _sort_by_words(self, own: Mapping[str, Any]) -> list[str]:
        words = {key: {*row["instruction"].lower().split()} for key, row in self._rows.items()}
        task = {*own["instruction"].lower().split()}
        return sorted(words, key=lambda key: -len(task & words[key]) / max(1, len(task | words[key])))

    def expect_tokens(self, model: str, subject: Subject) -> int:
        """Tokens of the images and words of the examples of a subject, for an estimate."""
        size = [(camera.height, _FRAMES * camera.width) for camera in subject.episode.good_cameras[:1]]
        number = min(self._count, len(self._answers))
        return estimate_image_tokens(model, size * number) + _PROMPT_TOKENS + _ANSWER_TOKENS * number

    def _show(self, own: Mapping[str, Any], nearest: Sequence[str]) -> ShownExamples:
        apart = (key for key in nearest if self._is_apart(own, self._rows[key]))
        with self._lock:  # of calls at the same time one decodes, and the others wait for its images
            drawn = ((key, image) for key in apart if (image := self._draw(key)) is not None)
            images = dict(islice(drawn, self._count))
        data: dict[str, Json] = {str(number): self._answers[key] for number, key in enumerate(images, 1)}
        prompt = read_prompt("ares_annotators", "examples").replace("{count}", str(len(images)))
        text = "\n" + prompt.replace("{data}", escape_json(data))
        return ShownExamples(list(images), text if images else "", list(images.values()))

    def _read_rows(self, episode_ids: Collection[str]) -> dict[str, dict[str, Any]]:
        """What tells copies and sides of a split, by episode."""
        table = self._stores.tables.episodes
        names = [name for name in _COLUMNS if name in table.columns()]
        rows = table.read_columns(names, ids_filter(episode_ids)).to_pylist()
        return {row["episode_id"]: row for row in rows}

    def _read_unit_vectors(self, space: str) -> tuple[list[str], NDArray[np.float32]]:
        """The N episodes of the examples that have vectors in a space, and the mean (N, D) of each, of unit length."""
        import numpy as np

        means: dict[str, NDArray[np.float32]] = {}
        for ids in batched(sorted(self._rows), _EPISODES_PER_READ):
            means |= self._stores.tables.vectors(space).mean_vectors(ids)
        vectors = np.array([*means.values()], np.float32).reshape(len(means), -1)
        return list(means), vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)

    def _is_apart(self, own: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        """Whether another episode is no copy, and on no other side of a split of the source or of a set."""
        keys = [{row.get(name) for name in _COPIES} | {row["episode_id"]} for row in (own, other)]
        if (keys[0] & keys[1]) - {None, ""} or own.get("split") != other.get("split"):
            return False
        contents = [row["content_hash"] or row["episode_id"] for row in (own, other)]
        sides = ([side.get(content) for content in contents] for side in self._sides.values())
        return all(first == second or None in (first, second) for first, second in sides)

    def _read_image(self, episode_id: str) -> NDArray[np.uint8] | None:
        """Three frames of the best camera of an episode side by side; None where it is gone or cannot be read."""
        import numpy as np

        with suppress(MediaError, RequestError):
            episode = self._stores.tables.episodes.get_episode(episode_id)
            for camera in episode.good_cameras[:1]:
                seconds = camera.media.num_frames / compute_camera_rate_hz(episode, camera)
                shown = [seconds * (part + 0.5) / _FRAMES for part in range(_FRAMES)]
                work = read_work(self._stores, make_episode_subject(episode), [{camera.name: shown}])
                return np.concatenate(list(work.frames.at(camera.name, shown)), axis=1)
        return None


def find_examples(examples: ConfirmedExamples | None, works: Sequence[Work]) -> list[ShownExamples]:
    """The examples for each of some works, none where none are asked for."""
    if examples is None:
        return [ShownExamples()] * len(works)
    return examples.find([work.episode.episode_id for work in works])


def read_confirmed_captions(stores: Stores) -> Confirmed:
    """Captions that a person accepts and nobody refuses, or that a person wrote; of several the newest."""
    accepted, refused, episodes = set[str](), set[str](), set[str]()
    for annotation, answer in list_answers(stores):
        if answer.question == "text":
            accepted.add(annotation.annotation_id)
        elif answer.verdict == "unmet":
            refused.add(annotation.subject)
        elif answer.question == "acceptable" and answer.verdict == "met":
            accepted.add(annotation.subject)
        episodes.add(annotation.episode_id)
    captions: dict[str, dict[str, Json]] = {}
    for ids in batched(sorted(episodes), _EPISODES_PER_READ):
        for annotation in stores.annotations.find_annotations(ids, ["caption"]):
            # What an undo let count again has another id than what people spoke of.
            names = {annotation.annotation_id, original_answer_id(annotation)}
            if names & accepted and not names & refused:
                captions[annotation.episode_id] = {"sentence": annotation.value["text"]}
    return captions


def read_confirmed_attributes(stores: Stores) -> Confirmed:
    """Attributes of episodes with the one value that a person calls true and nobody false."""
    values: dict[tuple[str, str], dict[str, set[str]]] = {}
    for annotation, answer in list_answers(stores):
        if is_about_attribute(answer.question) and answer.text:
            key = annotation.episode_id, answer.question.removeprefix(ATTRIBUTE_PREFIX)
            values.setdefault(key, {}).setdefault(answer.verdict, set()).add(answer.text)
    attributes: dict[str, dict[str, Json]] = {}
    for (episode_id, name), by_verdict in values.items():
        confirmed = by_verdict.get("met", set()) - by_verdict.get("unmet", set())
        if len(confirmed) == 1:
            attributes.setdefault(episode_id, {})[name] = confirmed.pop()
    return attributes


def read_confirmed_outcomes(stores: Stores) -> Confirmed:
    """Episodes that people call a success, or a failure, and nobody something else."""
    outcomes: dict[str, set[str]] = {}
    for annotation, answer in list_answers(stores):
        if answer.question == "success" and answer.verdict != "unsure":
            outcomes.setdefault(annotation.episode_id, set()).add(answer.verdict)
    return {key: {"outcome": min(own)} for key, own in outcomes.items() if own in ({"success"}, {"failure"})}
