"""The application of the server: beyond loopback it needs a password."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.dashboard import dashboard_pages
from app.server.asgi import build_app
from ares.errors import RequestError
from ares.workspace import Workspace


def test_beyond_loopback_a_password_is_needed(workspace: Workspace) -> None:
    with pytest.raises(RequestError, match="needs a login"):
        build_app(workspace.path, workspace.settings, dashboard_pages(), host="0.0.0.0")
    build_app(
        workspace.path, replace(workspace.settings, app_password="s3cret"), dashboard_pages(), host="0.0.0.0"
    )
