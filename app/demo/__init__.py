"""The demo: sample episodes, reference models, and a run of every step on them."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares_app.demo.run import (
        ACCEPTED as ACCEPTED,
        DEMO_FOLDER as DEMO_FOLDER,
        GRADE_OPTIONS as GRADE_OPTIONS,
        TEST_NOTE as TEST_NOTE,
        DemoReport as DemoReport,
        make_demo_folder_path as make_demo_folder_path,
        make_demo_settings as make_demo_settings,
        run_demo_job as run_demo_job,
    )

__getattr__ = lazy_exports(__name__)
