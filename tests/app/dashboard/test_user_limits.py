"""What users may do: exports stay below allowed folders, and images to search by are frames, never paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from ares.errors import RequestError
from ares.workspace import Workspace
from ares_app.dashboard.user_limits import (
    UserLimits,
    choose_export_destination,
    find_default_export_folder,
    search_image,
)


def test_a_name_is_a_folder_below_the_allowed_one(tmp_path: Path, workspace: Workspace) -> None:
    assert (
        choose_export_destination(tmp_path / "new", "accepted-v1.lerobot")
        == tmp_path / "new" / "accepted-v1.lerobot"
    )
    assert find_default_export_folder(workspace.stores) == Path(workspace.location) / "exports"


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../evil", "/etc", "a\\b", ".hidden", "a\x00b", "a\n", "~", "s3:", "x" * 101, "-rf"],
)
def test_what_is_no_plain_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RequestError, match="cannot be the name of a folder"):
        choose_export_destination(tmp_path, name)


def test_a_link_leads_nowhere_else(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    (allowed / "link").symlink_to(outside)
    (allowed / "dangling").symlink_to(outside / "new")
    for name in ("link", "dangling"):
        with pytest.raises(RequestError, match="symbolic link"):
            choose_export_destination(allowed, name)
    (tmp_path / "mine").symlink_to(allowed)
    assert choose_export_destination(tmp_path / "mine", "new") == allowed / "new", (
        "the owner may allow a link"
    )


def test_a_folder_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RequestError, match="the folder of exports cannot be used"):
        choose_export_destination(tmp_path / "file" / "below", "new")


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_a_time_limit_is_a_number_above_0(seconds: float) -> None:
    with pytest.raises(RequestError, match="time limit of a query"):
        UserLimits(query_seconds=seconds)


def test_a_frame_of_the_workspace_passes_and_no_path(tmp_path: Path) -> None:
    frame = "0123456789abcdef/front camera@1.25"
    assert search_image(frame) == frame and search_image("") == ""
    with pytest.raises(RequestError, match="no image of this workspace"):
        search_image(str(tmp_path / "a.png"))
