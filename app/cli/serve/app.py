"""`ares app`: open the dashboard."""

from __future__ import annotations

import argparse

from app.cli.common import open_workspace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "-w",
        "--workspace",
        metavar="PATH",
        help="workspace folder (default: $ARES_WORKSPACE or ./ares-workspace)",
    )
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="H", help="address to listen on (default: loopback only)"
    )
    parser.add_argument(
        "--port", type=int, default=8501, metavar="P", help="port (default 8501; 0 for any free one)"
    )
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser window")


def run(args: argparse.Namespace) -> int:
    """Serve the dashboard until interrupted."""
    from app.server import serve

    serve(open_workspace(args), host=args.host, port=args.port, open_browser=not args.no_browser)
    return 0
