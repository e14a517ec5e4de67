"""What users may do: exports stay below allowed folders, and images to search by are uploads, never paths."""

from __future__ import annotations

import io
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from app.dashboard import search_image
from app.dashboard.user_limits import (
    UserLimits,
    choose_export_destination,
    find_default_export_folder,
    store_uploaded_image,
)
from ares.errors import RequestError
from ares.workspace import Workspace


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
    with pytest.raises(RequestError, match="--query-seconds"):
        UserLimits(query_seconds=seconds)


def _png(width: int = 1600, height: int = 800) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.zeros((height, width, 3), np.uint8)).save(file, format="PNG")
    return file.getvalue()


def _png_with_claimed_size(width: int, height: int) -> bytes:
    """A PNG whose header claims a size that its data do not have."""
    data = bytearray(_png(8, 8))
    data[16:24] = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4, "big")
    return bytes(data)


def test_an_upload_is_reduced_and_found_by_its_random_id(workspace: Workspace) -> None:
    first, second = (store_uploaded_image(workspace.stores, _png()) for _ in range(2))
    assert first != second
    path = Path(search_image(workspace.stores, first))
    assert path.is_relative_to(workspace.stores.folder / "cache")
    with Image.open(path) as image:
        assert image.size == (768, 384)


@pytest.mark.parametrize(
    "data", [b"", b"not an image", _png()[:200], b"<svg xmlns='http://www.w3.org/2000/svg'/>"]
)
def test_what_is_no_image_is_one_line(workspace: Workspace, data: bytes) -> None:
    with pytest.raises(RequestError, match="the image cannot be read"):
        store_uploaded_image(workspace.stores, data)


@pytest.mark.parametrize("size", [(10_500, 10_500), (12_000, 12_000), (60_000, 60_000)])
def test_an_image_that_claims_a_huge_size_is_refused_by_its_header(
    workspace: Workspace, size: tuple[int, int]
) -> None:
    with pytest.raises(RequestError, match="the image is too large"):
        store_uploaded_image(workspace.stores, _png_with_claimed_size(*size))


def test_an_upload_that_is_gone_is_one_line(workspace: Workspace) -> None:
    with pytest.raises(RequestError, match="no longer kept"):
        search_image(workspace.stores, "upload:" + "0" * 32)


def test_a_frame_of_the_workspace_passes(workspace: Workspace) -> None:
    frame = "0123456789abcdef/front camera@1.25"
    assert search_image(workspace.stores, frame) == frame
    assert search_image(workspace.stores, "") == ""
