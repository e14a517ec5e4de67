"""A ray cluster that wants a token is told in one line, and at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from ares.errors import RequestError
from ares.jobs import open_engine

ray: Any = pytest.importorskip("ray", reason="ray is not installed: pip install 'ares-curation[ray]'")


# Prints its address, and ends with its standard input.
_CLUSTER = """
import os, sys
os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="the-token-of-the-cluster")
from ray.cluster_utils import Cluster
head = {"num_cpus": 0, "object_store_memory": 80 * 2**20, "include_dashboard": False}
cluster = Cluster(initialize_head=True, head_node_args=head)
print("address", cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


@pytest.fixture
def address() -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, "-c", _CLUSTER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout and process.stdin
        yield next(line.split()[1] for line in process.stdout if line.startswith("address "))
        process.stdin.close()
        assert process.wait(timeout=300) == 0


@pytest.mark.nightly
def test_a_cluster_that_wants_a_token_is_told_in_one_line(
    address: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with (
        pytest.raises(RequestError, match="the ray cluster wants a token") as caught,
        open_engine("ray"),
    ):
        pass
    assert address in str(caught.value) and "RAY_AUTH_TOKEN_PATH" in str(caught.value)
    assert "\n" not in str(caught.value) and capfd.readouterr().err == ""
