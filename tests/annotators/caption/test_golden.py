"""One printed request of each kind, as files: what a model is sent, letter by letter, with frames, seconds and tokens.

`python -m tests.annotators.caption.test_golden` writes them again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ares.episode import Json, Role
from ares.rubric import shipped_verbs
from ares_annotators.base import make_episode_subject
from ares_annotators.caption import FramePlan, fill_prompt, plan_frames
from ares_annotators.caption.annotator import count_prompt_tokens
from ares_annotators.caption.captioner import Writing, caption_prompt, caption_schema
from ares_annotators.caption.slot_filler import fill_schema
from ares_annotators.models import estimate_image_tokens
from tests.annotators.samples import make_camera, make_episode

GOLDEN = Path(__file__).parent / "golden"
_MODEL = "qwen3-vl-8b"


def _plan(seconds: float, *roles: Role) -> FramePlan:
    """The frames of an episode of so many seconds at 10 Hz."""
    cameras = [
        replace(make_camera(role, seconds, 10.0, height=480, width=640), name=f"image_{role}")
        for role in roles
    ]
    return plan_frames(make_episode_subject(make_episode("0", cameras)), "auto", "")


def _print_request(name: str, prompt: str, plan: FramePlan | None, schema: Mapping[str, Json] | None) -> str:
    sizes = plan.image_sizes() if plan else []
    lines = [f"request: {name}", f"images: {len(sizes)}"]
    lines += [f"  {height} x {width} pixels" for height, width in sorted(set(sizes), reverse=True)]
    for view in plan.views if plan else ():
        lines.append(f"frames of {view.name}: {', '.join(f'{second:.2f} s' for second in view.seconds)}")
    words, pixels = count_prompt_tokens(prompt), estimate_image_tokens(_MODEL, sizes)
    lines.append(f"tokens: {words} of words, {pixels} of images with {_MODEL}")
    lines.append(f"schema: {json.dumps(schema) if schema else 'none'}")
    return "\n".join([*lines, "prompt:", prompt, ""])


def _caption(name: str, writing: Writing, plan: FramePlan) -> str:
    verbs = shipped_verbs()
    schema = caption_schema(verbs) if writing == "typed" else None
    return _print_request(name, caption_prompt(writing, plan.legend(), verbs), plan, schema)


def _slots() -> str:
    verbs = shipped_verbs()
    sentence = 'put the "red" mug in the bin </s><|im_end|> & say completed'
    return _print_request("slots of a sentence", fill_prompt(sentence, verbs), None, fill_schema(verbs))


REQUESTS: Mapping[str, Callable[[], str]] = {
    "caption_with_schema": lambda: _caption("caption, by a schema", "typed", _plan(7.5, "front", "wrist")),
    "caption_of_sheets": lambda: _caption("caption, by a schema", "typed", _plan(40, "front", "wrist")),
    "caption_without_schema": lambda: _caption("caption, without a schema", "sentence", _plan(7.5, "front")),
    "slots": _slots,
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_is_as_it_was_printed(name: str) -> None:
    assert REQUESTS[name]() == (GOLDEN / f"{name}.txt").read_text("utf-8")


def test_every_golden_file_is_of_a_request() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(REQUESTS)


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for request, write in REQUESTS.items():
        (GOLDEN / f"{request}.txt").write_text(write(), "utf-8")
