"""Claims: a vision-language model as judge, asked one question at a time about a caption that it is given as data."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from annotators.base import Seconds
from annotators.judge import Case, Judged
from annotators.layout import Layout, wanted
from annotators.prompts import prompt
from annotators.vlm import Ask, Reply, Vlm, usd
from ares.annotation import Cost, short_hash
from ares.episode import Episode
from ares.errors import AresError, MediaError
from ares.rubric.rubric import Criterion
from ares.rubric.verdict import Ruling, Verdict
from ares.settings import Settings

MAX_NEW_TOKENS = 300
# For the quote alone.
_TOKENS_PER_IMAGE, _TOKENS_OF_PROMPT, _TOKENS_OF_REPLY = 400, 350, 80


class _Answer(BaseModel):
    """The reply's form; anything else is off the menu."""

    model_config = ConfigDict(extra="forbid", strict=True)

    observation: str
    frames: list[int]
    verdict: Literal["MET", "UNMET", "UNSURE"]


class ClaimJudge:
    """Claim checks by a vision-language model; keeps the contract of `annotators.judge.Judge`.

    Args:
        vlm: The model.
        layout: How frames are laid before it.
        camera: Camera name, or "" for the best one.
        settings: Price, for the quote.
        remote: Whether its calls cost money.
    """

    def __init__(self, vlm: Vlm, layout: Layout, camera: str, settings: Settings, remote: bool) -> None:
        self._vlm, self._layout, self._camera = vlm, layout, camera
        self._price = settings.price
        self._remote = remote
        self.name, self.family = vlm.name, vlm.family
        self.batch, self.workers = vlm.batch, vlm.workers
        self.prompt_hash = short_hash([prompt("grade"), prompt("grade_system")])

    def wants(self, episode: Episode) -> Seconds:
        """The frames that the layout takes."""
        return wanted(episode, self._camera, self._layout.count)

    def estimate(self, criteria: Sequence[Criterion]) -> Cost:
        """One call per criterion that a model may be asked about."""
        calls = sum(criterion.claim for criterion in criteria)
        images = 1 if self._layout.name == "collage" else self._layout.count
        tokens_in = calls * (images * _TOKENS_PER_IMAGE + _TOKENS_OF_PROMPT)
        tokens_out = calls * _TOKENS_OF_REPLY
        spent = usd(self._price, tokens_in, tokens_out) if self._remote else 0.0
        return Cost(calls=calls, tokens_in=tokens_in, tokens_out=tokens_out, usd=spent)

    def judge(self, cases: Sequence[Case]) -> Sequence[Judged | AresError]:
        """Rulings, one call per criterion."""
        return [self._case(case) for case in cases]

    def _case(self, case: Case) -> Judged | AresError:
        seconds = self.wants(case.work.episode)
        if not seconds:
            return MediaError("episode has no such camera", f"{self._camera or 'any'!r}")
        (camera, instants), *_ = seconds.items()
        try:
            images = self._layout.arrange(case.work.frames.at(camera, instants))
        except MediaError as error:
            return error
        asked = [criterion for criterion in case.criteria if criterion.claim]
        legend, system = self._layout.legend(instants), prompt("grade_system")
        asks = [Ask(images=images, prompt=question(one, case.text, legend), system=system) for one in asked]
        replies = list(self._vlm.ask(asks))
        # A server that does not answer is no verdict: the caption stays to be graded.
        for reply in replies:
            if isinstance(reply, AresError):
                return reply
        answered = [reply for reply in replies if isinstance(reply, Reply)]
        rulings = {
            one.id: self._read(one, reply, instants) for one, reply in zip(asked, answered, strict=True)
        }
        cost = sum((reply.cost for reply in answered), Cost())
        return Judged(
            rulings=[rulings.get(one.id) or _unasked(one, self.name) for one in case.criteria], cost=cost
        )

    def _read(self, criterion: Criterion, reply: Reply, instants: Sequence[float]) -> Ruling:
        verdict, observed, frames, reason = read_answer(reply.text, len(instants))
        return Ruling(
            criterion=criterion.id,
            verdict=verdict,
            source="claim",
            observed=observed,
            evidence=tuple(instants[number - 1] for number in frames),
            judge=self.name,
            reason=reason,
            reply=reply.text,
        )


def question(criterion: Criterion, caption: str, legend: str) -> str:
    """The prompt about one criterion; the caption's text is in it once, as an escaped JSON string."""
    data = json.dumps({"caption": caption}, ensure_ascii=True)
    # JSON leaves markup as it is; escaped, no tag or fence of the caption's own reaches the model's template.
    escaped = re.sub(r"[<>&`|]", lambda match: f"\\u{ord(match.group()):04x}", data)
    examples = "".join(
        f"{word}: {text}\n" for word, text in (("MET", criterion.passes), ("UNMET", criterion.fails)) if text
    )
    return prompt("grade").format(
        legend=legend, id=criterion.id, text=criterion.text, examples=examples, caption=escaped
    )


def read_answer(reply: str, frames: int) -> tuple[Verdict, str, Sequence[int], str]:
    """Verdict, observation, frame numbers and reason of a reply; ERROR for one that is off the menu.

    One pair of code fences is taken off; nothing else is mended. A verdict without a frame to show for it is
    UNSURE: it was not seen.
    """
    body = reply.strip()
    fenced = re.fullmatch(r"```(?:json)?\s*(.*?)\s*```", body, re.DOTALL)
    try:
        document = json.loads(
            fenced[1] if fenced else body, object_pairs_hook=_no_twins, parse_constant=_no_constant
        )
        answer = _Answer.model_validate(document)
    except (ValueError, RecursionError) as error:
        off_menu = isinstance(error, ValidationError)
        return Verdict.ERROR, "", (), "reply is off the menu" if off_menu else "reply is no JSON"
    if any(not 1 <= number <= frames for number in answer.frames):
        return Verdict.ERROR, answer.observation, (), "reply cites a frame that was not shown"
    if not answer.frames and answer.verdict != "UNSURE":
        return Verdict.UNSURE, answer.observation, (), "reply cites no frame"
    return Verdict(answer.verdict), answer.observation, answer.frames, "judged by the frames cited"


def _no_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError("a key comes twice")
    return dict(pairs)


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


def _unasked(criterion: Criterion, judge: str) -> Ruling:
    return Ruling(
        criterion=criterion.id,
        verdict=Verdict.UNSURE,
        source="claim",
        judge=judge,
        reason="no claim check for this criterion",
    )
