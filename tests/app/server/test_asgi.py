"""The application of the server: beyond loopback it needs a password."""

from __future__ import annotations

import pytest

from app.dashboard import dashboard_pages
from app.server import serve
from ares.errors import RequestError
from ares.workspace import Workspace


def test_beyond_loopback_a_password_is_needed(workspace: Workspace) -> None:
    with pytest.raises(RequestError, match="needs a login"):
        serve(workspace, dashboard_pages(), host="0.0.0.0")
