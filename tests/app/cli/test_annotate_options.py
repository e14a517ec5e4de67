"""Flags of `ares annotate` come from the options that installed annotators declare, guests' too."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import Field

from annotators.base import Annotator, Options
from annotators.options import AnnotatorOptions, takes_options
from app.cli.main import build_parser, main
from ares.annotation import Producer
from ares.registry import annotators
from ares.settings import Settings
from ares.store import Stores
from ares.workspace import open_workspace
from tests.ingesting import ingest_paths


class GuestOptions(AnnotatorOptions):
    """Options of a guest; the command has a flag `--where` of its own."""

    frame_count: int = Field(default=3, description="frames to describe, 100% of them at most")
    where: str = Field(default="", description="where to look")
    camera: str = Field(default="", description="camera to describe")


@pytest.fixture
def guest() -> Iterator[list[GuestOptions]]:
    """Registers the annotator "guest"; holds the options that its factory got."""
    received: list[GuestOptions] = []

    @takes_options(GuestOptions)
    def factory(options: Options, stores: Stores) -> Annotator:
        received.append(options.parse(GuestOptions))
        return SimpleNamespace(producer=Producer(annotator="guest", version="1"), process=lambda works: [])

    annotators.add("guest", factory)
    yield received
    annotators.remove("guest")


@pytest.fixture
def workspace(tmp_path: Path, demo_samples: Path) -> str:
    """A workspace with one episode."""
    path = str(tmp_path / "ws")
    opened = open_workspace(path, Settings())
    ingest_paths(opened.stores, [str(demo_samples / "video")], limit=1, quiet=True)
    opened.close()
    return path


def parse(line: str) -> dict[str, Any]:
    """Values of annotators' options in a command line."""
    values: dict[str, Any] = build_parser("annotate").parse_args(["annotate", *line.split()]).option_values
    return values


def help_text(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        build_parser("annotate").parse_args(["annotate", "--help"])
    return capsys.readouterr().out


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


def test_an_option_reaches_the_annotations(workspace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARES_CAPTION_MODEL", "stub:close the drawer")
    assert main(["annotate", "caption", "--layout", "tiles", "--camera", "front", "-w", workspace]) == 0
    opened = open_workspace(workspace, Settings())
    ids = sorted(opened.stores.tables.episodes.ids())
    (caption,) = opened.stores.annotations.find_annotations(ids, ["caption"])
    settings = opened.stores.annotations.producers()[caption.maker_id].settings
    opened.close()
    assert caption.value["layout"] == settings["layout"] == "tiles"
    assert caption.camera == settings["camera"] == "front"


def test_a_guest_gets_its_flags(workspace: str, guest: list[GuestOptions]) -> None:
    line = "annotate guest motion --frame-count 5 --guest.where left --camera top --guest.camera wrist"
    assert main([*line.split(), "--dry-run", "-w", workspace]) == 0
    assert guest == [GuestOptions(frame_count=5, where="left", camera="wrist")]


def test_a_guest_does_not_take_a_flag_of_the_command(guest: list[GuestOptions]) -> None:
    args = build_parser("annotate").parse_args(["annotate", "guest", "--where", "success"])
    assert (args.where, args.option_values) == ("success", {})


def test_two_guests_with_an_option_of_a_flags_name_are_addressed(guest: list[GuestOptions]) -> None:
    annotators.add("visitor", annotators.get("guest"))
    try:
        args = build_parser("annotate").parse_args(
            ["annotate", "guest", "--where", "success", "--visitor.where", "left"]
        )
    finally:
        annotators.remove("visitor")
    assert (args.where, args.option_values) == ("success", {"visitor.where": "left"})


def test_help_groups_the_flags_by_annotator(
    guest: list[GuestOptions], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = help_text(capsys, monkeypatch)
    sections = {block.splitlines()[0]: block for block in text.split("\n\n")}
    assert "camera of caption, embed, grade, guest, segment and success" in text
    assert "--rubric RUBRIC, --grade.rubric RUBRIC" in sections["options of grade:"]
    assert "last frame of one camera) (default: auto)" in sections["options of caption:"]
    guest_section = sections["options of guest:"]
    assert "--frame-count FRAME_COUNT, --guest.frame-count FRAME_COUNT" in guest_section
    assert "frames to describe, 100% of them at most (default: 3)" in guest_section
    assert "  --guest.where WHERE" in guest_section
    assert "--urdf URDF, --motion.urdf URDF" in sections["options of motion:"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("motion --layout tiles", "no option 'layout': motion has urdf, end_effector, base_link"),
        ("guest --frame-count many", "wrong value of option 'guest.frame_count': 'many'; Input should be"),
        ("caption --layout collage", "wrong value of option 'caption.layout': 'collage'; Input should be"),
    ],
)
def test_a_wrong_option_is_one_line(
    workspace: str, guest: list[GuestOptions], capsys: pytest.CaptureFixture[str], line: str, message: str
) -> None:
    assert main(["annotate", *line.split(), "-w", workspace]) == 2
    (printed,) = capsys.readouterr().err.splitlines()
    assert printed.startswith(f"ares annotate: {message}")


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


def test_help_loads_no_heavy_library() -> None:
    program = (
        "import sys, app.cli.main as main\n"
        "try: main.main(['annotate', '--help'])\n"
        "except SystemExit: print('loaded', *sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = ran.stdout.splitlines()[-1].split()
    assert loaded[0] == "loaded"
    assert not {"torch", "open_clip", "transformers", "numpy", "lancedb", "pyarrow"}.intersection(loaded)
