"""Stores: LanceDB tables as the index, an append-only annotation log as the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.store.database import Tables
    from ares.store.manifest import workspace_exists
    from ares.store.opening import open_stores
    from ares.store.stores import Stores
    from ares.store.sync import (
        LogChanges,
        applied_sequence,
        read_changes,
        reset_applied_sequence,
        skip_applied,
    )
    from ares.store.temp_db import TempDatabase

__all__ = [
    "LogChanges",
    "Stores",
    "Tables",
    "TempDatabase",
    "applied_sequence",
    "open_stores",
    "read_changes",
    "reset_applied_sequence",
    "skip_applied",
    "workspace_exists",
]

__getattr__ = lazy_exports(__name__)
