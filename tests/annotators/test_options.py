"""Options that annotators declare: what reaches a factory, and the line that a wrong one is answered with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import pytest
from pydantic import Field, field_validator, model_validator

from ares.annotation import Producer
from ares.episode import Json
from ares.errors import RequestError
from ares.registry import annotators
from ares.store import Stores
from ares.workspace import Workspace
from ares_annotators.base import Annotator, Options
from ares_annotators.options import AnnotatorOptions, takes_options
from tests.annotators.runs import estimate_cost


class SceneOptions(AnnotatorOptions):
    """Options of a guest: one that changes values, one that does not."""

    not_in_producer: ClassVar[frozenset[str]] = frozenset({"batch_size"})

    detail: str = Field(default="low", description="how much is described")
    frame_count: int = Field(default=3, ge=1, description="frames to describe")
    batch_size: int = Field(default=8, description="scenes in one call")

    @field_validator("detail")
    @classmethod
    def check_detail(cls, detail: str) -> str:
        if detail not in ("low", "high"):
            raise ValueError("give low or high")
        return detail

    @model_validator(mode="after")
    def check_frames(self) -> SceneOptions:
        if self.frame_count > self.batch_size:
            raise ValueError("frame_count must not exceed batch_size")
        return self


class ColourOptions(AnnotatorOptions):
    """Options of a second guest, which shares one of them."""

    frame_count: int = Field(default=1, description="frames to look at")


Seen = dict[str, AnnotatorOptions]


@pytest.fixture
def seen() -> Seen:
    """Registers the annotators "scene", "colour" and "plain"; holds the options that their factories got."""
    seen: Seen = {}

    @takes_options(SceneOptions)
    def make_scene(options: Options, stores: Stores) -> Annotator:
        own = options.parse(SceneOptions)
        seen["scene"] = own
        producer = Producer(annotator="scene", version="1", settings=own.producer_settings())
        return SimpleNamespace(producer=producer, process=lambda works: [])

    @takes_options(ColourOptions)
    def make_colour(options: Options, stores: Stores) -> Annotator:
        own = options.parse(ColourOptions)
        seen["colour"] = own
        return SimpleNamespace(producer=Producer(annotator="colour", version="1"), process=lambda works: [])

    def make_plain(options: Options, stores: Stores) -> Annotator:
        seen["plain"] = AnnotatorOptions()
        assert not options.values
        return SimpleNamespace(producer=Producer(annotator="plain", version="1"), process=lambda works: [])

    factories = {"scene": make_scene, "colour": make_colour, "plain": make_plain}
    for name, factory in factories.items():
        annotators.add(name, factory)
    return seen


@pytest.fixture
def load(ws: Workspace, options: Options) -> Callable[..., None]:
    """Makes annotators as a run does."""

    def load(names: str, **values: Json) -> None:
        by_option = {name.replace("__", "."): value for name, value in values.items()}
        estimate_cost(ws.stores, names.split(), replace(options, values=by_option))

    return load


def test_a_plain_name_reaches_all_that_have_it_and_an_addressed_one_has_precedence(
    seen: Seen, load: Callable[..., None]
) -> None:
    load("scene colour plain", frame_count=5, detail="high")
    assert seen["scene"] == SceneOptions(detail="high", frame_count=5)
    assert seen["colour"] == ColourOptions(frame_count=5)
    load("colour scene", frame_count=5, colour__frame_count=2)
    assert seen["scene"] == SceneOptions(frame_count=5)
    assert seen["colour"] == ColourOptions(frame_count=2)


def test_text_is_read_as_the_type_of_the_option(seen: Seen, load: Callable[..., None]) -> None:
    load("scene", frame_count="7")
    assert seen["scene"] == SceneOptions(frame_count=7)


@pytest.mark.parametrize(
    ("names", "values", "message"),
    [
        (
            "colour scene",
            {"scene__frame_count": "many"},
            "wrong value of option 'scene.frame_count': 'many'; Input should be a valid integer, "
            "unable to parse string as an integer; frames to describe",
        ),
        (
            "scene",
            {"detail": "great"},
            "wrong value of option 'scene.detail': 'great'; give low or high; how much is described",
        ),
        (
            "scene",
            {"frame_count": 9},
            "options do not go together: {'frame_count': 9}; frame_count must not exceed",
        ),
        (
            "plain scene",
            {"frames": 3},
            "no option 'frames': plain has no options; scene has detail, frame_count, batch_size",
        ),
        ("plain scene", {"colour__frame_count": 3}, "no option 'colour.frame_count': plain has no options; "),
        ("colour", {"detail": "high"}, "no option 'detail': colour has frame_count"),
    ],
)
def test_a_wrong_option_is_named_before_anything_is_loaded(
    seen: Seen, load: Callable[..., None], names: str, values: dict[str, Json], message: str
) -> None:
    with pytest.raises(RequestError) as raised:
        load(names, **values)
    assert str(raised.value).startswith(message)
    assert not seen


def test_a_factory_that_is_called_directly_refuses_what_it_does_not_have(options: Options) -> None:
    with pytest.raises(RequestError, match=r"^no option 'layout': there are: frame_count$"):
        replace(options, values={"layout": "tiles"}).parse(ColourOptions)


def test_an_option_that_cannot_change_values_is_not_part_of_the_producer() -> None:
    assert SceneOptions(batch_size=64).producer_settings() == {"detail": "low", "frame_count": 3}
