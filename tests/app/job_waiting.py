"""Waiting for jobs of the dashboard."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from ares.store import Stores
from ares_app.server import Job, list_jobs


def wait_for_job(
    stores: Stores, command: str, subject: str, is_ready: Callable[[Job], bool] = lambda job: job.ended
) -> Job:
    """The newest job of a command with a subject, once it has ended or is ready."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        if is_ready(job := list_jobs(stores, command, subject)[0]):
            return job
        time.sleep(0.02)
    pytest.fail(f"the job stays {job}")
