"""A ray cluster that wants a token; prints its address, and ends with its standard input."""

from __future__ import annotations

import os
import sys
from typing import Any


def main() -> None:
    """Start the cluster and wait."""
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="the-token-of-the-cluster")
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    cluster: Any = Cluster(initialize_head=True, head_node_args=head)
    print(f"address {cluster.address}", flush=True)
    sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    main()
