"""Searches of the command line by a running dashboard of the same workspace, which has everything loaded."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ares.io import is_url

if TYPE_CHECKING:
    from ares.search import Hit


def search_running_dashboard(args: argparse.Namespace, query: Mapping[str, object]) -> list[Hit] | None:
    """The hits of a running dashboard, which are those that this process would get; None where none answers.

    Args:
        args: Parsed arguments, with `workspace`.
        query: Fields of `ares.search.Query`.
    """
    from app.server import search_by_dashboard
    from ares.settings import settings_from_environment

    settings = settings_from_environment()
    path = args.workspace or settings.workspace
    location = path.rstrip("/") if is_url(path) else str(Path(path).resolve())
    return search_by_dashboard(location, settings, {**query, "image": _absolute(str(query["image"]))})


def _absolute(image: str) -> str:
    """A file by its absolute path, because a dashboard runs in another folder; a stored frame as it is."""
    return str(Path(image).resolve()) if image and Path(image).is_file() else image
