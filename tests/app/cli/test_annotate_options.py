"""Options of annotators: a flag for each that many use, and the file of --options for all, guests' too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from pydantic import Field

from ares.annotation import Producer
from ares.registry import annotators
from ares.store import Stores
from ares.workspace import Workspace
from ares_annotators.base import Annotator, Options
from ares_annotators.options import AnnotatorOptions, takes_options
from tests.app.cli.conftest import Refused
from tests.workspaces import CommandResult

Run = Callable[..., CommandResult]


class GuestOptions(AnnotatorOptions):
    """Options of a guest."""

    frame_count: int = Field(default=3, description="frames to describe, 100% of them at most")
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


def test_an_option_reaches_the_annotations(
    video_ws: Workspace, run_ares: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARES_CAPTION_MODEL", "stub:close the drawer")
    options = ("--layout", "tiles", "--options", "{annotators: {caption: {camera: front}}}", "--limit", "1")
    assert run_ares("annotate", "caption", *options, "-w", video_ws.path).status == 0
    ids = sorted(video_ws.stores.tables.episodes.ids())
    (caption,) = video_ws.stores.annotations.find_annotations(ids, ["caption"])
    settings = video_ws.stores.annotations.producers()[caption.maker_id].settings
    assert caption.value["layout"] == settings["layout"] == "tiles"
    assert caption.camera == settings["camera"] == "front"


def test_the_written_file_says_what_each_option_is_for_and_changes_nothing_until_it_is_edited(
    video_ws: Workspace, guest: list[GuestOptions], run_ares: Run, tmp_path: Path
) -> None:
    file, run = tmp_path / "options.yaml", ("annotate", "guest", "motion", "--dry-run", "-w", video_ws.path)
    assert run_ares("annotate", "guest", "caption", "motion", "--write-options", file).status == 0
    text = file.read_text()
    assert "# frames to describe, 100% of them at most\n    #frame_count: 3\n" in text
    assert '\n    #layout: "auto"\n' in text
    assert run_ares("annotate", "guest", "--write-options", file).status == 2, "it exists"
    assert run_ares(*run, "--options", file).status == 0
    assert guest.pop() == GuestOptions()
    file.write_text(text.replace("#frame_count: 3", "frame_count: 5").replace('#camera: ""', "camera: top"))
    written = yaml.safe_load(file.read_text())["annotators"]
    assert written["caption"] == {"camera": "top"}, "options of an annotator that does not run here"
    assert run_ares(*run, "--options", file).status == 0
    assert guest.pop() == GuestOptions(frame_count=5, camera="top")
    assert run_ares(*run, "--options", file, "--camera", "wrist").status == 0
    assert guest.pop() == GuestOptions(frame_count=5, camera="wrist"), "a flag decides"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["motion", "--layout", "tiles"], "no option 'layout': motion has no options"),
        (["caption", "--layout", "collage"], "wrong value of option 'caption.layout': 'collage'; Input"),
        (
            ["guest", "--options", "{annotators: {gest: {}}}"],
            "unknown key 'gest': {annotators: {gest: {}}}: did",
        ),
        (["guest", "--options", "{annotators: {guest: {frames: 3}}}"], "unknown key 'frames'"),
        (["motion", "--options", "{annotators: {motion: {urdf: a}}}"], "motion: there are: none"),
        (["guest", "--options", "{annotators: {guest: 3}}"], "wrong form"),
        (["guest", "--options", "{annotators: {guest: {frame_count: many}}}"], "'guest.frame_count': 'many'"),
        (["guest", "--options", "{per_worker: 3}"], "wrong per_worker"),
        (["guest", "--options", "nowhere.yaml"], "the options file cannot be read"),
    ],
)
def test_a_wrong_option_is_one_line(
    video_ws: Workspace, guest: list[GuestOptions], refused: Refused, words: list[str], message: str
) -> None:
    line = refused("annotate", *words, "-w", video_ws.path)
    assert line.startswith("ares annotate: ") and message in line
    assert not guest


def test_an_annotator_that_cannot_be_imported_leaves_the_help_to_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from ares_app.cli.main import main

    monkeypatch.setattr(annotators, "get", lambda name: pytest.fail("the help imports no annotator"))
    with pytest.raises(SystemExit):
        main(["annotate", "--help"])
    assert "--layout" in capsys.readouterr().out
