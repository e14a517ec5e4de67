"""`ares ingest`: read datasets into the workspace."""

from __future__ import annotations

import argparse

from app.cli.common import add_common, answer, number_of_episodes, open_workspace, tallies
from ares.episode import Json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    from ares.registry import ingesters

    parser.add_argument("source", nargs="+", metavar="SOURCE", help="folder or file of a dataset")
    parser.add_argument(
        "--format", default="auto", metavar="NAME", help=f"auto (default), {', '.join(ingesters.names())}"
    )
    parser.add_argument(
        "--media",
        choices=("reference", "copy"),
        default="reference",
        help="reference (default): pixels stay where they are; copy: they become videos in the workspace",
    )
    parser.add_argument("--limit", type=number_of_episodes, metavar="N", help="read at most N episodes")
    parser.add_argument("--strict", action="store_true", help="stop at the first episode that fails")
    parser.add_argument(
        "--engine",
        default="local",
        metavar="E",
        help="local (default), or ray: read on the cluster of $RAY_ADDRESS, or on this machine's own",
    )
    _add_told(parser)
    add_common(parser)


def _add_told(parser: argparse.ArgumentParser) -> None:
    """What the user knows of a dataset that it does not say itself."""
    parser.add_argument(
        "--dataset", default="", metavar="NAME", help="name to store instead of the source's own"
    )
    parser.add_argument(
        "--rate", type=_positive, metavar="HZ", help="recording rate, where the source does not store it"
    )
    parser.add_argument(
        "--cameras",
        default="",
        metavar="PATTERN",
        help="how names of video files tell episode and camera: '{episode}_{camera}.mp4', '{camera}/{episode}.mp4'",
    )
    parser.add_argument(
        "--spec",
        default="",
        metavar="FILE",
        help="what the dataset does not say of itself, as --show-spec prints",
    )
    parser.add_argument(
        "--show-spec",
        action="store_true",
        help="only print the spec that would be used, to be saved and edited",
    )


def run(args: argparse.Namespace) -> int:
    """Ingest. Returns 1 when an episode failed."""
    from ares.jobs.engine import open_engine
    from ingest.base import Options
    from ingest.detect import open_sources, show_specs
    from ingest.load import load_sources

    options = Options(dataset=args.dataset, rate_hz=args.rate, spec=args.spec, cameras=args.cameras)
    if args.show_spec:
        spec = show_specs(args.source, options, args.format)
        answer(args, {"spec": spec}, lambda: spec.rstrip())
        return 0
    # Before the workspace: a wrong path must not leave an empty one behind.
    sources = open_sources(args.source, options, args.format)
    with open_engine(args.engine) as engine:
        ws = open_workspace(args, create=True)
        asked = {"limit": args.limit, "strict": args.strict, "media": args.media}
        loaded = load_sources(ws, sources, **asked, engine=engine)
    document = loaded.to_json()
    answer(args, document, lambda: _text(document, args.media == "copy"))
    return 1 if loaded.report.failed else 0


def _text(document: dict[str, Json], copied: bool) -> str:
    counts = ", ".join(f"{name} {document[name]}" for name in ("planned", "kept", "already", "failed"))
    lines = [f"{counts}  ({document['seconds']} s)"]
    lines += (
        [f"duplicates: {document['duplicates']} episodes repeat the content of another"]
        if document["duplicates"]
        else []
    )
    lines += _copied(document) if copied else []
    lines += ["failed:" + tallies(document, "failures")] if document["failures"] else []
    lines += ["suspicious:" + tallies(document, "warnings")] if document["warnings"] else []
    return "\n".join(lines)


def _copied(document: dict[str, Json]) -> list[str]:
    count, already = document["copied_bytes"], document["already"]
    assert isinstance(count, int)
    left = f"; the {already} that were already there stay as they are" if already else ""
    return [f"copied: {count / 1e6:.1f} MB of video into the workspace{left}"]


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text} is no rate in Hz; give a number above 0")
    return value
