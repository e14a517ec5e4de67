"""The demo: sample episodes, reference models, and a run of every step on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from app.demo.run import (
        ACCEPTED,
        DEMO_FOLDER,
        GRADE_OPTIONS,
        TEST_NOTE,
        DemoReport,
        demo_settings,
        new_run_folder,
        run_demo,
    )

__all__ = [
    "ACCEPTED",
    "DEMO_FOLDER",
    "GRADE_OPTIONS",
    "TEST_NOTE",
    "DemoReport",
    "demo_settings",
    "new_run_folder",
    "run_demo",
]

__getattr__ = lazy_exports(__name__)
