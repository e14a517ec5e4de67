"""Waiting for jobs of the dashboard."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from ares.store import Stores
from ares_app.server import Job, list_all_jobs


def wait_for_job(
    stores: Stores, command: str, subject: str, is_ready: Callable[[Job], bool] = lambda job: job.ended
) -> Job:
    """The newest job of a command with a subject, once it has ended or is ready."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        jobs = [job for job in list_all_jobs(stores) if (job.words[0], job.subject) == (command, subject)]
        if is_ready(jobs[0]):
            return jobs[0]
        time.sleep(0.02)
    pytest.fail(f"the job stays {jobs[0]}")
