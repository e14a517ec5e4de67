"""`ares app`: open the dashboard."""

from __future__ import annotations

import argparse

from app.cli.common import add_verbosity_options, add_workspace_option, open_workspace, port_number


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_workspace_option(parser)
    add_verbosity_options(parser)
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="H", help="address to listen on (default: loopback only)"
    )
    parser.add_argument(
        "--port", type=port_number, default=8501, metavar="P", help="port (default 8501; 0 for any free one)"
    )
    parser.add_argument(
        "--export-dir",
        action="append",
        default=[],
        metavar="DIR",
        help="folder below which pages may export; may be given several times (default: exports in the workspace)",
    )
    parser.add_argument(
        "--query-seconds",
        type=float,
        metavar="S",
        help="time limit of each query of a page (default: $ARES_QUERY_SECONDS or 10)",
    )
    parser.add_argument(
        "--trusted-proxy",
        action="append",
        default=[],
        metavar="IP",
        help="address or network of a reverse proxy whose X-Forwarded headers count; may be given several times",
    )
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser window")


def describe_stop(args: argparse.Namespace) -> str:
    """What became of the dashboard."""
    return "the dashboard has ended; the workspace is unchanged"


def run(args: argparse.Namespace) -> int:
    """Serve the dashboard until interrupted."""
    from app.dashboard import dashboard_pages
    from app.server import serve

    serve(
        open_workspace(args),
        dashboard_pages(args.export_dir, args.query_seconds),
        host=args.host,
        port=args.port,
        open_browser=not args.no_browser,
        trusted_proxies=args.trusted_proxy,
    )
    return 0
