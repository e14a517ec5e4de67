"""`ares annotate`: run annotators over the episodes that lack them."""

from __future__ import annotations

import argparse

from app.cli.common import add_common, answer, number_of_episodes, open_workspace, table, tallies
from ares.episode import Json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    from ares.registry import annotators

    parser.add_argument(
        "name", nargs="+", metavar="NAME", help=f"annotators, in order: {', '.join(annotators.names())}"
    )
    parser.add_argument("--where", default="", metavar="SQL", help="only episodes that fulfil this filter")
    parser.add_argument(
        "--model", default="", metavar="SPEC", help="model for the annotator, when one is named"
    )
    parser.add_argument("--camera", default="", metavar="NAME", help="camera to use (default: the best view)")
    parser.add_argument(
        "--layout",
        default="tiles",
        metavar="L",
        help="frames shown to a captioner: tiles, collage or frames:N",
    )
    parser.add_argument(
        "--rubric", default="caption", metavar="R", help="rubric of grade: a shipped name or a YAML file"
    )
    parser.add_argument(
        "--device", default="", metavar="D", help="torch device (default: a GPU when there is one)"
    )
    parser.add_argument("--limit", type=number_of_episodes, metavar="N", help="work on at most N episodes")
    parser.add_argument("--budget", type=float, metavar="USD", help="stop before this much money is spent")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done and cost")
    parser.add_argument("--strict", action="store_true", help="stop at the first failure")
    parser.add_argument(
        "--engine",
        default="local",
        metavar="E",
        help="local (default), or ray: work on the cluster of $RAY_ADDRESS, or on this machine's own",
    )
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Annotate. Returns 1 when a subject failed. Raises RequestError when --model cannot be meant for all names."""
    from annotators.base import Options
    from annotators.run import annotate, quote
    from ares.errors import RequestError
    from ares.jobs.engine import open_engine

    if args.model and len({*args.name} - {"motion"}) > 1:
        raise RequestError(
            "--model goes with one annotator", f"got {' '.join(args.name)}; run them one at a time"
        )
    ws = open_workspace(args)
    options = Options(
        settings=ws.settings,
        model=args.model,
        camera=args.camera,
        layout=args.layout,
        rubric=args.rubric,
        device=args.device,
    )
    if args.dry_run:
        _answer_all(args, [one.to_json() for one in quote(ws, args.name, options, args.where)], _quoted)
        return 0
    with open_engine(args.engine) as engine:
        asked = {"where": args.where, "limit": args.limit, "budget_usd": args.budget, "strict": args.strict}
        documents = annotate(ws, args.name, options, **asked, engine=engine)
    _answer_all(args, documents, _done)
    return 1 if any(document["failed"] for document in documents) else 0


def _answer_all(args: argparse.Namespace, documents: list[dict[str, Json]], text: object) -> None:
    document: Json = documents[0] if len(documents) == 1 else [dict(one) for one in documents]
    answer(args, document, lambda: text(documents))  # type: ignore[operator]


def _done(documents: list[dict[str, Json]]) -> str:
    keys = (
        "annotator",
        "planned",
        "kept",
        "already",
        "failed",
        "calls",
        "tokens_in",
        "tokens_out",
        "usd",
        "seconds",
    )
    failed = "".join(
        f"\n{one['annotator']} failed:{tallies(one, 'failures')}" for one in documents if one["failures"]
    )
    return _rows(documents, keys) + failed


def _quoted(documents: list[dict[str, Json]]) -> str:
    return _rows(
        documents, ("annotator", "planned", "already", "frames", "calls", "tokens_in", "tokens_out", "usd")
    )


def _rows(documents: list[dict[str, Json]], keys: tuple[str, ...]) -> str:
    rows = [["unknown" if one[key] is None else one[key] for key in keys] for one in documents]
    return table(rows, [key.replace("_", " ") for key in keys])
