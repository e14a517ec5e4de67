"""Arguments of the actions of `ares rubric` that call a judge."""

from __future__ import annotations

import argparse

from app.cli.common import torch_device


def add_judge_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the judge of a command."""
    parser.add_argument(
        "--model", default="", metavar="SPEC", help="the judge (default: the configured judge)"
    )
    parser.add_argument("--device", type=torch_device, default="", metavar="D", help="torch device")
    parser.add_argument(
        "--candidates",
        default="",
        metavar="FILE",
        help="phrases of a clip judge, the demo's, one a line",
    )
    parser.add_argument(
        "--observe",
        choices=("first", "never"),
        default="first",
        help="whether a vision-language judge observes before it knows a text",
    )
