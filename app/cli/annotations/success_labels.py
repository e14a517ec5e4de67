"""`ares annotate success --evaluate`: judges the labelled episodes, and compares the verdicts with the labels."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from app.cli.output import Block, OutputTable
from ares.errors import RequestError

if TYPE_CHECKING:
    from annotators.success import Evaluation, Labels
    from ares.workspace import Workspace

_ANNOTATOR = "success"


def add_label_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--evaluate",
        default="",
        metavar="CSV",
        help="for success: judge the episodes with a label in this file (columns episode, success), and compare",
    )
    parser.add_argument(
        "--fit",
        default="",
        metavar="YAML",
        help="with --evaluate: write a combination fitted to the labels, and evaluate it on other tasks",
    )


def check_label_arguments(args: argparse.Namespace) -> None:
    """Raises RequestError where the arguments do not go together."""
    if args.fit and not args.evaluate:
        raise RequestError("--fit needs labels", "give --evaluate CSV too")
    if args.evaluate and args.name != [_ANNOTATOR]:
        raise RequestError(
            "--evaluate compares success with labels", f"{' '.join(args.name)}; run ares annotate success"
        )


def labelled_filter(labels: Labels, where: str) -> str:
    """The filter of the user, and only episodes with a label: no other is paid."""
    from ares.store.filters import conjunction, ids_filter

    return conjunction([where, ids_filter(labels.labels)])


def evaluate(args: argparse.Namespace, workspace: Workspace, labels: Labels, maker_id: str) -> Evaluation:
    """Compare with the labels; with --fit by combinations that did not see the task of an episode."""
    from annotators.success import evaluate_success, fit_to_labels, write_combination

    evaluation = evaluate_success(workspace.stores, labels, maker_id)
    if not args.fit:
        return evaluation
    model = workspace.stores.annotations.makers()[maker_id].model
    combination, evaluation = fit_to_labels(evaluation, model)
    write_combination(combination, args.fit)
    return evaluation


def evaluation_blocks(evaluation: Evaluation) -> Iterator[Block]:
    """The evaluation for people."""
    from ares.quality.audit import share_text

    yield _opening(evaluation)
    confusion = evaluation.confusion()
    verdicts = ("success", "failure", "unsure")
    rows = [label for label in ("success", "failure", "partial") if any(key[0] == label for key in confusion)]
    yield OutputTable(
        [[label, *(confusion[label, verdict] for verdict in verdicts)] for label in rows],
        ["label", *verdicts],
    )
    shares = [
        [name, share_text(hits, total) if total else "none"]
        for name, (hits, total) in evaluation.shares().items()
    ]
    yield OutputTable(shares, ["share", "95 % interval"])
    yield "\n".join(_area_lines(evaluation.to_json()))


def _opening(evaluation: Evaluation) -> str:
    left = [
        f"{count} {text}"
        for count, text in (
            (evaluation.not_judged, "were not judged"),
            (evaluation.unmatched, "are of no episode here"),
        )
        if count
    ]
    fitted = (
        "; verdicts by combinations that were fitted to the labels of other tasks"
        if evaluation.is_fitted
        else ""
    )
    return f"{len(evaluation.episodes)} labels{''.join(f', {text}' for text in left)}{fitted}"


def _area_lines(document: Mapping[str, object]) -> Iterator[str]:
    names = {
        "auroc": "AUROC, partial counted as failure",
        "auroc_without_partial": "AUROC without partial",
        "auroc_length": "AUROC of length alone, shorter as success",
    }
    for key, name in names.items():
        area = document[key]
        if not isinstance(area, dict):
            yield f"{name}: needs a success and a failure"
            continue
        interval = area["interval"]
        bounds = f" ({interval[0]:.3f}-{interval[1]:.3f})" if interval else " (one task: no interval)"
        yield f"{name}: {area['value']:.3f}{bounds}"
