"""Flags of `ares annotate` come from the options that installed annotators declare, guests' too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import Field

from annotators.base import Annotator, Options
from annotators.options import AnnotatorOptions, takes_options
from app.cli.main import build_parser
from ares.annotation import Producer
from ares.registry import annotators
from ares.store import Stores
from ares.workspace import Workspace
from tests.app.cli.conftest import Refused
from tests.workspaces import CommandResult


class GuestOptions(AnnotatorOptions):
    """Options of a guest; the command has a flag `--where` of its own."""

    frame_count: int = Field(default=3, description="frames to describe, 100% of them at most")
    where: str = Field(default="", description="where to look")
    camera: str = Field(default="", description="camera to describe")


@pytest.fixture
def guest() -> Iterator[list[GuestOptions]]:
    """Registers the annotators "guest" and "visitor"; holds the options that their factory got."""
    received: list[GuestOptions] = []

    @takes_options(GuestOptions)
    def factory(options: Options, stores: Stores) -> Annotator:
        received.append(options.parse(GuestOptions))
        return SimpleNamespace(producer=Producer(annotator="guest", version="1"), process=lambda works: [])

    for name in ("guest", "visitor"):
        annotators.add(name, factory)
    yield received
    for name in ("guest", "visitor"):
        annotators.remove(name)


def parse(line: str) -> dict[str, Any]:
    """Values of annotators' options in a command line."""
    values: dict[str, Any] = build_parser("annotate").parse_args(["annotate", *line.split()]).option_values
    return values


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("caption", {}),
        ("caption --layout tiles --camera wrist", {"layout": "tiles", "camera": "wrist"}),
        ("caption --layout=sheets", {"layout": "sheets"}),
        ("grade --rubric mine.yaml", {"rubric": "mine.yaml"}),
        (
            "caption grade --caption.layout tiles --grade.rubric mine.yaml",
            {"caption.layout": "tiles", "grade.rubric": "mine.yaml"},
        ),
        ("caption --layout tiles --layout sheets", {"layout": "sheets"}),
    ],
)
def test_flags_of_our_annotators(line: str, values: dict[str, str]) -> None:
    assert parse(line) == values


def test_an_option_reaches_the_annotations(
    video_ws: Workspace, run_ares: Callable[..., CommandResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARES_CAPTION_MODEL", "stub:close the drawer")
    options = ("--layout", "tiles", "--camera", "front", "--limit", "1")
    assert run_ares("annotate", "caption", *options, "-w", video_ws.path).status == 0
    ids = sorted(video_ws.stores.tables.episodes.ids())
    (caption,) = video_ws.stores.annotations.find_annotations(ids, ["caption"])
    settings = video_ws.stores.annotations.producers()[caption.maker_id].settings
    assert caption.value["layout"] == settings["layout"] == "tiles"
    assert caption.camera == settings["camera"] == "front"


def test_a_guest_gets_its_flags_and_takes_none_of_the_command(
    video_ws: Workspace, guest: list[GuestOptions], run_ares: Callable[..., CommandResult]
) -> None:
    line = "annotate guest motion --frame-count 5 --guest.where left --camera top --guest.camera wrist"
    assert run_ares(*line.split(), "--dry-run", "-w", video_ws.path).status == 0
    assert guest == [GuestOptions(frame_count=5, where="left", camera="wrist")]
    args = build_parser("annotate").parse_args(
        ["annotate", "guest", "--where", "success", "--visitor.where", "left"]
    )
    assert (args.where, args.option_values) == ("success", {"visitor.where": "left"})


def test_help_groups_the_flags_by_annotator(
    guest: list[GuestOptions], run_ares: Callable[..., CommandResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = run_ares("annotate", "--help").out
    sections = {block.splitlines()[0]: block for block in text.split("\n\n")}
    assert "camera of caption, embed, grade, guest, segment, success and visitor" in text
    assert "--rubric RUBRIC, --grade.rubric RUBRIC" in sections["options of grade:"]
    assert "last frame of one camera) (default: auto)" in sections["options of caption:"]
    guest_section = sections["options of guest:"]
    assert "frames to describe, 100% of them at most (default: 3)" in guest_section
    assert "  --guest.where WHERE" in guest_section
    assert "--urdf URDF, --motion.urdf URDF" in sections["options of motion:"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("motion --layout tiles", "no option 'layout': motion has urdf, end_effector, base_link"),
        ("guest --guest.frame-count many", "wrong value of option 'guest.frame_count': 'many'; Input should"),
        ("caption --layout collage", "wrong value of option 'caption.layout': 'collage'; Input should be"),
    ],
)
def test_a_wrong_option_is_one_line(
    video_ws: Workspace, guest: list[GuestOptions], refused: Refused, line: str, message: str
) -> None:
    said = refused("annotate", *line.split(), "-w", video_ws.path)
    assert said.startswith(f"ares annotate: {message}")


def test_an_annotator_that_cannot_be_imported_leaves_the_others_their_flags(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load = annotators.get

    def fail_for_embed(name: str) -> Any:
        if name == "embed":
            raise OSError("libcuda.so is missing")
        return load(name)

    monkeypatch.setattr(annotators, "get", fail_for_embed)
    assert parse("caption --caption.camera wrist") == {"caption.camera": "wrist"}
