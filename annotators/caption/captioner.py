"""A captioner: what it is asked about frames, and the typed captions that its replies become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from ares.annotation import Cost, Producer, short_hash
from ares.episode import Json
from ares.errors import ModelError
from ares.rubric import (
    COMPLETED,
    NOT_COMPLETED,
    SlotName,
    SlotValues,
    make_slot_columns,
    normalize_caption,
    order_slots,
    slots_to_json,
)
from ares_annotators.base import PaidFailure
from ares_annotators.caption.frame_plan import CaptionLayout, FramePlan, add_context, plan_frames
from ares_annotators.caption.sample_vote import SAMPLE_TEMPERATURE, vote_slots
from ares_annotators.caption.slot_filler import (
    AttributeTexts,
    FilledSlots,
    ValueText,
    clean_attributes,
    clean_value,
    describe_verbs,
    fill_hash,
    fill_slots,
    limit_actions,
    name_action,
)
from ares_annotators.caption.stated_phrases import find_phrase
from ares_annotators.models import Vlm, VlmFailure, VlmReply, VlmRequest
from ares_annotators.prompting import read_json_reply, read_prompt

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares_annotators.base import CameraSeconds, Subject
    from ares_annotators.examples import ConfirmedExamples

# Length limits of replies: all slots with a sentence, and a sentence alone.
MAX_TYPED_TOKENS, MAX_SENTENCE_TOKENS = 300, 64
# Slots and a sentence at once, by a schema; or a sentence alone, by a model that takes no question.
Writing = Literal["typed", "sentence"]
# What has a separate caption.
CaptionedKind = Literal["episode", "segment"]
_PACKAGE = "ares_annotators.caption"
_Sentence = Annotated[str, StringConstraints(min_length=1, max_length=400)]


class _CaptionForm(BaseModel):
    """The form of the reply of a model with schemas."""

    model_config = ConfigDict(extra="forbid", strict=True)

    action: ValueText
    other_action: ValueText
    object: ValueText
    attributes: AttributeTexts
    source: ValueText = Field(alias="from")
    to: ValueText
    hand: ValueText
    manner: ValueText
    count: ValueText
    outcome: Literal["completed", "not completed", "not visible"]
    sentence: _Sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Captioner:
    """A model with the settings of captioning.

    Attributes:
        vlm: The model.
        producer: Producer of its captions.
        layout: Frames that were asked for, see `ares_annotators.caption.frame_plan.plan_frames`.
        camera: Camera name, or "" for the default of the layout.
        verbs: The guide of verbs.
        phrases: Sentences whose slots are known, for a model that writes no others.
        per: What has a caption: each episode, or each segment of it.
        samples: Blind captions, of which the one is kept whose slots most others have.
        examples: Confirmed captions of other episodes that it is shown, or None.
    """

    vlm: Vlm
    producer: Producer
    layout: CaptionLayout
    camera: str
    verbs: Mapping[str, str]
    phrases: Mapping[str, SlotValues] = field(default_factory=dict)
    per: CaptionedKind = "episode"
    samples: int = 1
    examples: ConfirmedExamples | None = None

    @property
    def writing(self) -> Writing:
        """How it writes captions."""
        return choose_writing(self.vlm)

    def plan(self, subject: Subject) -> FramePlan:
        """The frames of a subject that it gets, and how they are arranged.

        With a part of an episode it gets a sheet of what comes before and after, if it can be told what that is.
        """
        plan = plan_frames(subject, choose_layout(self.layout, self.writing), self.camera)
        if self.per == "episode" or self.writing == "sentence":
            return plan
        return add_context(plan, subject, self.camera)

    def select_frames(self, subject: Subject) -> CameraSeconds:
        """The frames of a subject that it gets; none where the episode lacks the camera."""
        return self.plan(subject).by_camera

    def prompt(self, plan: FramePlan) -> str:
        """What it is asked about frames."""
        return caption_prompt(self.writing, plan.legend(), self.verbs)

    def request(self, images: Sequence[NDArray[np.uint8]], prompt: str) -> VlmRequest:
        """The request for a caption of images; `prompt` is `self.prompt`, or begins with it."""
        is_typed = self.writing == "typed"
        return VlmRequest(
            images=images,
            prompt=prompt,
            schema=caption_schema(self.verbs) if is_typed else None,
            max_tokens=MAX_TYPED_TOKENS if is_typed else MAX_SENTENCE_TOKENS,
            samples=self.samples,
            temperature=SAMPLE_TEMPERATURE if self.samples > 1 else 0.0,
            seed=0 if self.samples > 1 else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCaption:
    """A caption that a model wrote.

    Attributes:
        value: The value of its annotation, without the layout.
        cost: What it cost, whenever it was paid.
        paid: What was paid for it now.
    """

    value: dict[str, Json]
    cost: Cost
    paid: Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadReply:
    """A reply as it was read; `slots` is None where it is a sentence alone, `agreement` where nothing was voted on."""

    reply: VlmReply
    sentence: str
    slots: SlotValues | None
    agreement: float | None = None


def agreement_column(per: CaptionedKind) -> str:
    """Name of the column that says how far the samples of a caption agree."""
    return "segment_caption_agreement" if per == "segment" else "caption_agreement"


def choose_writing(vlm: Vlm) -> Writing:
    """How a model writes captions."""
    return "sentence" if "captions_only" in vlm.capabilities else "typed"


def choose_layout(layout: CaptionLayout, writing: Writing) -> CaptionLayout:
    """The layout that is meant: a model that takes no question was trained for the first, middle and last frame."""
    return "tiles" if layout == "auto" and writing == "sentence" else layout


def caption_prompt(writing: Writing, legend: str, verbs: Mapping[str, str]) -> str:
    """What a captioner is asked.

    Args:
        writing: How it writes.
        legend: Which images it gets.
        verbs: The guide of verbs.
    """
    template = read_prompt(_PACKAGE, "caption" if writing == "typed" else "sentence")
    return template.replace("{legend}", legend).replace("{verbs}", describe_verbs(verbs))


def caption_schema(verbs: Mapping[str, str]) -> dict[str, Json]:
    """The JSON schema of a caption."""
    return limit_actions(_CaptionForm.model_json_schema(), verbs)


def captioner_hash(writing: Writing, verbs: Mapping[str, str], per: CaptionedKind = "episode") -> str:
    """Hash of all that a captioner is asked beside the frames."""
    prompt = caption_prompt(writing, "", verbs)
    if writing == "sentence":
        return short_hash(prompt)
    # A server may take no notice of the schema, and then the slots are asked for as well.
    context = [read_prompt(_PACKAGE, "context")] if per == "segment" else []
    return short_hash([prompt, caption_schema(verbs), fill_hash(verbs), *context])


def write_captions(
    captioner: Captioner, requests: Sequence[VlmRequest]
) -> list[WrittenCaption | PaidFailure]:
    """One caption per request, in order: all requests are sent at once, then those for slots that are missing."""
    read = [_read_reply(captioner, reply) for reply in captioner.vlm.ask(requests)]
    open_replies = [item for item in read if isinstance(item, _ReadReply) and item.slots is None]
    if captioner.writing == "sentence":
        open_replies = []
    filled = fill_slots([item.sentence for item in open_replies], captioner.vlm, captioner.verbs)
    slots_of = {id(item): slots for item, slots in zip(open_replies, filled, strict=True)}
    return [
        item if isinstance(item, PaidFailure) else _write_caption(captioner, item, slots_of.get(id(item)))
        for item in read
    ]


def _write_caption(
    captioner: Captioner, read: _ReadReply, filled: FilledSlots | VlmFailure | None
) -> WrittenCaption | PaidFailure:
    """The caption of a reply, with the slots that a second call filled where there was one."""
    if isinstance(filled, VlmFailure):
        return PaidFailure(filled.error, read.reply.paid + filled.cost)
    cost, paid = read.reply.cost, read.reply.paid
    if filled:
        read, cost, paid = replace(read, slots=filled.slots), cost + filled.cost, paid + filled.paid
    return WrittenCaption(value=_make_value(captioner, read), cost=cost, paid=paid)


def _read_reply(captioner: Captioner, reply: VlmReply | VlmFailure) -> _ReadReply | PaidFailure:
    if isinstance(reply, VlmFailure):
        return PaidFailure(reply.error, reply.cost)
    texts = reply.samples or (reply.text,)
    all_read = [parse_caption_reply(text, captioner.writing, captioner.verbs) for text in texts]
    typed = [(item[0], item[1]) for item in all_read if not isinstance(item, str) and item[1] is not None]
    if captioner.samples > 1 and typed:
        voted = vote_slots(typed, captioner.samples)
        return _ReadReply(reply=reply, sentence=voted.sentence, slots=voted.slots, agreement=voted.agreement)
    read = next((item for item in all_read if not isinstance(item, str)), all_read[0])
    if isinstance(read, str):
        error = ModelError(read, f"{captioner.vlm.name} replied {reply.text[:200]!r}")
        return PaidFailure(error, reply.paid)
    sentence, slots = read
    known = find_phrase(sentence, captioner.phrases) if slots is None else None
    return _ReadReply(reply=reply, sentence=sentence, slots=slots if known is None else known)


def parse_caption_reply(
    text: str, writing: Writing, verbs: Mapping[str, str]
) -> tuple[str, SlotValues | None] | str:
    """The sentence of a reply with its slots, None where it has none; else what is wrong with it.

    A server that takes no notice of a schema may reply with a sentence: that is one, JSON of another form is not.

    Args:
        text: The reply.
        writing: How the captioner writes.
        verbs: The guide of verbs.
    """
    if writing == "typed" and text.strip().startswith(("{", "[", "```")):
        form = read_json_reply(_CaptionForm, text)
        if isinstance(form, str):
            return "caption is of another form"
        sentence = clean_caption_reply(form.sentence)
        return (sentence, _form_slots(form, verbs)) if sentence else "caption is empty"
    sentence = clean_caption_reply(text)
    return (sentence, None) if sentence else "caption is empty"


def _form_slots(form: _CaptionForm, verbs: Mapping[str, str]) -> SlotValues:
    values = form.model_dump(by_alias=True)
    copied: tuple[SlotName, ...] = ("object", "from", "to", "hand", "manner", "count", "outcome")
    named: dict[SlotName, str] = {name: clean_value(str(values[name])) for name in copied}
    named["action"] = name_action(form.action, clean_value(form.other_action), verbs)
    named["attributes"] = clean_attributes(form.attributes)
    return order_slots(named)


def _make_value(captioner: Captioner, read: _ReadReply) -> dict[str, Json]:
    value: dict[str, Json] = {"text": read.sentence}
    if captioner.per == "episode":
        value["caption"] = read.sentence
    if read.slots:
        value |= {"slots": slots_to_json(read.slots), **make_slot_columns(read.slots)}
    outcome = _says_success(read.sentence, read.slots)
    if outcome is not None and captioner.per == "episode":
        value["caption_success"] = outcome
    if read.agreement is not None:
        value[agreement_column(captioner.per)] = round(read.agreement, 4)
    value["layout"] = choose_layout(captioner.layout, captioner.writing)
    if read.reply.text != read.sentence:
        value["raw"] = read.reply.text
    return value


def _says_success(sentence: str, slots: SlotValues | None) -> bool | None:
    """Whether a caption says that the task was done; None where it leaves that open."""
    if slots is None:
        return {"success": True, "failure": False}.get(normalize_caption(sentence).outcome)
    return {COMPLETED: True, NOT_COMPLETED: False}.get(slots.get("outcome", ""))


def clean_caption_reply(reply: str) -> str:
    """A reply without line breaks, outer spaces and outer quotes; nothing else is changed."""
    text = " ".join(reply.split())
    for opening, closing in (('"', '"'), ("'", "'"), ("“", "”")):
        if len(text) > 1 and text.startswith(opening) and text.endswith(closing):
            text = text[1:-1].strip()
    return text
