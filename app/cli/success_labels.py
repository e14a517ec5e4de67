"""`ares annotate success --evaluate`: compare verdicts with labels of a file, and fit a combination to them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from app.cli.output import Block, OutputTable
from ares.console import count_of
from ares.errors import RequestError

if TYPE_CHECKING:
    from annotators.success import Labels, SuccessEvaluation
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


def restrict_filter_to_labels(labels: Labels, where: str) -> str:
    """The filter of the user, and only episodes with a label: no other is paid."""
    from ares.store import conjunction, ids_filter

    return conjunction([where, ids_filter(labels.labels)])


def evaluate(
    args: argparse.Namespace, workspace: Workspace, labels: Labels, maker_id: str
) -> SuccessEvaluation:
    """Compare with the labels; with --fit by combinations that did not see the task of an episode."""
    from annotators.success import evaluate_success, fit_to_labels, write_success_combination

    evaluation = evaluate_success(workspace.stores, labels, maker_id)
    if not args.fit:
        return evaluation
    model = workspace.stores.annotations.producers()[maker_id].model
    combination, evaluation = fit_to_labels(evaluation, model)
    write_success_combination(combination, args.fit)
    return evaluation


def format_success_evaluation(evaluation: SuccessEvaluation) -> Iterator[Block]:
    """The evaluation for people."""
    from ares.statistics import format_share

    yield _describe_labels(evaluation)
    confusion = evaluation.confusion()
    verdicts = ("success", "failure", "unsure")
    rows = [label for label in ("success", "failure", "partial") if any(key[0] == label for key in confusion)]
    yield OutputTable(
        [[label, *(confusion[label, verdict] for verdict in verdicts)] for label in rows],
        ["label", *verdicts],
    )
    shares = [
        [name, format_share(hits, total) if total else "none"]
        for name, (hits, total) in evaluation.shares().items()
    ]
    yield OutputTable(shares, ["share", "95 % interval"])
    yield tuple(_area_lines(evaluation.to_json()))


def _describe_labels(evaluation: SuccessEvaluation) -> str:
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
    return f"{count_of(len(evaluation.episodes), 'label')}{''.join(f', {text}' for text in left)}{fitted}"


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
