"""Captions of episodes from the accepted captions of their segments: by code, and one call without images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from ares.annotation import Annotation, short_hash
from ares.episode import Json
from ares.errors import RequestError
from ares.rubric import COMPLETED, NOT_COMPLETED, make_slot_columns, slots_from_json
from ares.store import in_condition, quote_literal
from ares_annotators.base import Outcome, PaidFailure, Result, Subject, Work, new_annotation
from ares_annotators.caption.captioner import Captioner, WrittenCaption, write_captions
from ares_annotators.caption.slot_filler import describe_verbs
from ares_annotators.models import VlmRequest
from ares_annotators.prompting import escape_json, read_prompt

if TYPE_CHECKING:
    from ares.store import Stores


_PACKAGE = "ares_annotators.caption"
# Of a longer episode so many captions, evenly spread, are told to the model.
MOST_SEGMENTS = 60
_LAYOUT = "segments"
_ACCEPTED = "acceptable"
_TEST_TEXTS = ("pick up the red block", "put the red block in the tray")


class AcceptedSegments(NamedTuple):
    """What may be said of an episode by the captions of its segments.

    Attributes:
        captions: Those that are accepted, in order of time.
        left_out: Number of the others that are shown.
    """

    captions: Sequence[Annotation]
    left_out: int

    @property
    def distinct(self) -> list[Annotation]:
        """Of captions in a row with the same text the first."""
        groups = groupby(self.captions, lambda caption: str(caption.value["text"]).lower().strip(" ."))
        return [next(members) for _, members in groups]


_NOTHING = AcceptedSegments((), 0)


def episode_prompt_hash(verbs: Mapping[str, str]) -> str:
    """Hash of what a model is asked about the captions of segments."""
    return short_hash([read_prompt(_PACKAGE, "episode"), dict(verbs)])


@dataclass(frozen=True, slots=True)
class EpisodeWriter:
    """Writes captions of episodes from those of their segments.

    A caption that is not acceptable, or by the word of a refuted judge alone, is told to nobody. One caption, or
    several in a row of one text, is that of the episode as it is, without a call.

    Attributes:
        captioner: The model; it gets no images.
        stores: Stores of the workspace.
        captions: The annotator of the captions of segments.
    """

    captioner: Captioner
    stores: Stores
    captions: str

    def test_request(self) -> VlmRequest:
        """What the model is asked once before a run."""
        return self._request(_TEST_TEXTS)

    def expect_prompts(self, subject: Subject) -> list[str]:
        """The prompts about an episode: one, or none where a single text is its caption."""
        accepted = self._read([subject.episode.episode_id]).get(subject.episode.episode_id, _NOTHING)
        texts = _texts_of(accepted.distinct)
        return [self._prompt(texts)] if len(texts) > 1 else []

    def process(self, works: Sequence[Work]) -> list[Outcome]:
        """One caption per episode; all are asked for at once."""
        accepted = self._read([work.episode.episode_id for work in works])
        accepted_of_works = [accepted.get(work.episode.episode_id, _NOTHING) for work in works]
        distinct_captions = [item.distinct for item in accepted_of_works if len(item.distinct) > 1]
        requests = [self._request(_texts_of(captions)) for captions in distinct_captions]
        written = iter(write_captions(self.captioner, requests) if requests else ())
        return [
            self._result(work, item, next(written))
            if len(item.distinct) > 1
            else self._copy(work, item)
            if item.captions
            else _no_captions_error(item)
            for work, item in zip(works, accepted_of_works, strict=True)
        ]

    def _read(self, episode_ids: Sequence[str]) -> dict[str, AcceptedSegments]:
        """The shown captions of segments that are accepted, by episode."""
        table = self.stores.tables.segments
        if _ACCEPTED not in table.columns():
            return {}
        ids = in_condition("episode_id", sorted(set(episode_ids)))
        rows = table.scan(
            ["annotation_id", "episode_id", _ACCEPTED],
            f"annotator = {quote_literal(self.captions)} AND {ids}",
        ).to_pylist()
        accepted = {row["annotation_id"] for row in rows if row[_ACCEPTED]}
        shown = [row["episode_id"] for row in rows]
        by_episode: dict[str, list[Annotation]] = {}
        for caption in self.stores.annotations.find_annotations(sorted(set(shown)), [self.captions]):
            if caption.annotation_id in accepted:
                by_episode.setdefault(caption.episode_id, []).append(caption)
        return {
            key: AcceptedSegments(
                sorted(
                    captions := by_episode.get(key, []),
                    key=lambda item: (item.start_seconds, item.stop_seconds),
                ),
                shown.count(key) - len(captions),
            )
            for key in set(shown)
        }

    def _request(self, texts: Sequence[str]) -> VlmRequest:
        return self.captioner.request((), self._prompt(texts))

    def _prompt(self, texts: Sequence[str]) -> str:
        numbered = {str(number): text for number, text in enumerate(texts, 1)}
        template = read_prompt(_PACKAGE, "episode").replace("{verbs}", describe_verbs(self.captioner.verbs))
        return template.replace("{data}", escape_json(numbered))

    def _result(
        self, work: Work, accepted: AcceptedSegments, written: WrittenCaption | PaidFailure
    ) -> Outcome:
        if isinstance(written, PaidFailure):
            return written
        value = {**written.value, **_describe_source(accepted)}
        annotation = new_annotation(work, self.captioner.producer, value, cost=written.cost)
        return Result(annotations=[annotation], paid=written.paid)

    def _copy(self, work: Work, accepted: AcceptedSegments) -> Outcome:
        """The one text of an episode as its caption, with its slots."""
        caption = accepted.captions[0]
        text, slots = str(caption.value["text"]), slots_from_json(caption.value.get("slots"))
        value: dict[str, Json] = {"text": text, "caption": text}
        if slots:
            value |= {"slots": caption.value["slots"], **make_slot_columns(slots)}
            outcome = {COMPLETED: True, NOT_COMPLETED: False}.get(slots.get("outcome", ""))
            value |= {} if outcome is None else {"caption_success": outcome}
        value |= _describe_source(accepted)
        return Result(annotations=[new_annotation(work, self.captioner.producer, value)])


def _texts_of(captions: Sequence[Annotation]) -> list[str]:
    """The texts of captions, of many some that are evenly spread, the first and the last included."""
    texts = [str(caption.value["text"]) for caption in captions]
    step = (len(texts) - 1) / max(1, min(len(texts), MOST_SEGMENTS) - 1)
    return [texts[round(number * step)] for number in range(min(len(texts), MOST_SEGMENTS))]


def _describe_source(accepted: AcceptedSegments) -> dict[str, Json]:
    return {
        "layout": _LAYOUT,
        "made_of": [caption.annotation_id for caption in accepted.captions],
        "segments_left_out": accepted.left_out,
    }


def _no_captions_error(accepted: AcceptedSegments) -> RequestError:
    if accepted.left_out:
        detail = f"none of {accepted.left_out} is accepted by a judge (ares annotate grade --per segment)"
    else:
        detail = "there are none (ares annotate caption --per segment)"
    return RequestError("episode has no accepted caption of a segment", detail)
