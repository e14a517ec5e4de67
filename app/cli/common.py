"""Arguments that several commands share, and the workspace that they open."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ares.workspace import Workspace


def add_workspace_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --workspace and --json."""
    parser.add_argument(
        "-w",
        "--workspace",
        metavar="PATH",
        help="workspace: a folder, or a URI such as s3://bucket/name (default: $ARES_WORKSPACE or ./ares-workspace)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document on standard output")


def add_query_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the parts of a search query other than its text."""
    parser.add_argument(
        "--image",
        default="",
        metavar="FILE",
        help="find moments that look like this image, or like EPISODE_ID/CAMERA@SECONDS",
    )
    parser.add_argument("--like", default="", metavar="EPISODE_ID", help="find episodes like this one")
    parser.add_argument(
        "--by",
        default="",
        metavar="WAY[=WEIGHT],...",
        help="compare frames, captions, meaning, state or action (default: the first three)",
    )


def episode_count(text: str) -> int:
    """Parse the value of --limit: an integer from 0 on."""
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of episodes; give a whole number from 0 on"
        )
    return int(text)


def open_workspace(args: argparse.Namespace, create: bool = False) -> Workspace:
    """Return the workspace that the arguments name; `main` closes it when the command ends.

    Args:
        args: Parsed arguments.
        create: Create a missing workspace. A command that only reads must not leave an empty one behind.

    Raises:
        RequestError: There is no workspace, or the folder holds something else.
    """
    from ares.errors import RequestError
    from ares.settings import settings_from_environment
    from ares.store import workspace_exists
    from ares.workspace import open_workspace as open_at

    settings = settings_from_environment()
    path = args.workspace or settings.workspace
    if not create and not workspace_exists(path):
        raise RequestError(
            f"there is no workspace at {path!r}", "`ares ingest` creates one; -w selects another"
        )
    args.workspace_handle = open_at(path, settings)
    workspace: Workspace = args.workspace_handle
    return workspace
