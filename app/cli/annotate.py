"""`ares annotate`: run annotators by flags of their own options, and evaluate success on labels."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_origin

from app.cli.arguments import (
    add_workspace_arguments,
    episode_count,
    open_workspace,
    parse_torch_device,
    parse_usd_amount,
    parse_worker_count,
    parse_worker_resources,
)
from app.cli.errors import END_STATUSES, ExitStatus
from app.cli.output import Block, OutputTable, answer, tallies
from ares.console import count_of, write_stderr
from ares.episode import Json, describe_seconds
from ares.errors import RequestError
from ares.jobs import AnnotateReport, AnnotateRequest, EpisodeSelection
from ares.rubric import describe_trust
from ares.workspace import estimate_run, run_annotators

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from annotators.options import AnnotatorOptions
    from annotators.success import Labels, SuccessEvaluation
    from ares.store import Stores
    from ares.workspace import Workspace


class OptionField(NamedTuple):
    """An option of an annotator: its name and its field in the model."""

    annotator: str
    name: str
    info: FieldInfo

    @property
    def flag(self) -> str:
        """The flag that addresses this annotator: `--caption.layout`."""
        return f"--{self.annotator}.{_dashed_name(self.name)}"

    @property
    def is_list(self) -> bool:
        """Whether the flag may be given several times."""
        return get_origin(self.info.annotation) is tuple

    @property
    def help(self) -> str:
        """The description of the field, and its default unless that is empty."""
        info = self.info
        default = None if info.is_required() else info.get_default(call_default_factory=True)
        suffix = "" if default in ("", None, ()) else f" (default: {default})"
        return f"{info.description or self.name}{suffix}".replace("%", "%%")


class StoreOption(argparse.Action):
    """Stores a value by the name in its flag: "layout" for `--layout`, "caption.layout" for `--caption.layout`."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Add the value to those of the flags before it."""
        annotator, dot, flag = str(option_string).removeprefix("--").rpartition(".")
        name = f"{annotator}{dot}{flag.replace('-', '_')}"
        values_before = getattr(namespace, self.dest)
        setattr(namespace, self.dest, {**values_before, name: self.merge(values_before.get(name), values)})

    def merge(self, before: Any, value: str) -> Any:
        """The value of an option that is given again: the last one."""
        return value


class AppendOption(StoreOption):
    """Like StoreOption, for an option of several texts: a flag that is given again adds one."""

    def merge(self, before: Any, value: str) -> Any:
        """The texts of the flags so far, and another."""
        return [*(before or ()), value]


def add_option_flags(parser: argparse.ArgumentParser, dest: str) -> None:
    """Declare a flag for each option of each installed annotator; call it after the flags of the command itself.

    Args:
        parser: Parser of the command.
        dest: Attribute of the parsed arguments that gets the values, a dict of texts by option.
    """
    models = _installed_models()
    owners: dict[str, list[str]] = {}
    for annotator, model in models.items():
        for name in model.model_fields:
            owners.setdefault(name, []).append(annotator)
    parser.set_defaults(**{dest: {}})
    _add_shared_flags(parser, dest, owners)
    for annotator, model in models.items():
        group = parser.add_argument_group(f"options of {annotator}")
        for name, info in model.model_fields.items():
            _add_own_flag(group, dest, OptionField(annotator, name, info), is_shared=len(owners[name]) > 1)


def _installed_models() -> dict[str, type[AnnotatorOptions]]:
    from annotators.options import options_model
    from ares.registry import annotators

    models = {}
    for name in annotators.names():
        # A package that cannot be imported must not take the others down; it raises its error when it is run.
        with suppress(Exception):
            models[name] = options_model(annotators.get(name))
    return models


def _add_shared_flags(parser: argparse.ArgumentParser, dest: str, owners: Mapping[str, list[str]]) -> None:
    group = parser.add_argument_group(
        "options of several annotators", "for all annotators of the command that have the option"
    )
    for name, annotators in owners.items():
        if len(annotators) > 1:
            help_text = f"{name} of {_join_names(annotators)}"
            with suppress(argparse.ArgumentError):  # the command itself has a flag of that name
                _add_flag(group, [f"--{_dashed_name(name)}"], dest, name, help_text, StoreOption)


def _add_own_flag(group: argparse._ArgumentGroup, dest: str, field: OptionField, is_shared: bool) -> None:
    flags = [field.flag] if is_shared else [f"--{_dashed_name(field.name)}", field.flag]
    action = AppendOption if field.is_list else StoreOption
    try:
        _add_flag(group, flags, dest, field.name, field.help, action)
    except argparse.ArgumentError:  # the command itself has a flag of that name
        _add_flag(group, [field.flag], dest, field.name, field.help, action)


def _add_flag(
    group: argparse._ArgumentGroup,
    flags: Iterable[str],
    dest: str,
    name: str,
    help_text: str,
    action: type[StoreOption],
) -> None:
    group.add_argument(
        *flags,
        action=action,
        dest=dest,
        default=argparse.SUPPRESS,
        metavar=name.upper(),
        help=help_text,
    )


def _dashed_name(name: str) -> str:
    return name.replace("_", "-")


def _join_names(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


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
    model = workspace.stores.annotations.makers()[maker_id].model
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


_QUOTE_KEYS = ("annotator", "planned", "already", "frames", "calls", "tokens_in", "tokens_out", "usd")
_REPORT_KEYS = (
    "annotator",
    "planned",
    "kept",
    "already",
    "failed",
    "open",
    "calls",
    "tokens_in",
    "tokens_out",
    "usd",
    "seconds",
)


def add_annotate_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    from ares.registry import annotators

    parser.add_argument(
        "name", nargs="+", metavar="NAME", help=f"annotators, in order: {', '.join(annotators.names())}"
    )
    parser.add_argument("--where", default="", metavar="SQL", help="only episodes that fulfil this filter")
    parser.add_argument(
        "--model", default="", metavar="SPEC", help="model for the annotator, when one is named"
    )
    parser.add_argument(
        "--device",
        type=parse_torch_device,
        default="",
        metavar="D",
        help="torch device, or all: spread a hf: model over every GPU (default: a GPU when there is one)",
    )
    parser.add_argument("--limit", type=episode_count, metavar="N", help="work on at most N episodes")
    parser.add_argument(
        "--budget", type=parse_usd_amount, metavar="USD", help="stop before this much money is spent"
    )
    _add_retry_arguments(parser)
    add_label_arguments(parser)
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done and cost")
    parser.add_argument("--strict", action="store_true", help="stop at the first failure")
    parser.add_argument(
        "--engine",
        default="local",
        metavar="E",
        help="local (default), or ray: work on the cluster of $RAY_ADDRESS, or on this machine's own",
    )
    _add_worker_arguments(parser)
    add_workspace_arguments(parser)
    add_option_flags(parser, dest="option_values")


def _add_worker_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workers",
        type=parse_worker_count,
        metavar="N",
        help="at most N workers of each annotator that computes itself (default: one per GPU)",
    )
    parser.add_argument(
        "--per-worker",
        type=parse_worker_resources,
        default={},
        metavar="NAME=NUMBER,...",
        help="what one worker takes, such as cpus=2,memory_gb=8,gpus=0.5 (default: as each annotator states)",
    )


def _add_retry_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--retry-failed",
        action="store_true",
        help="work only on what has failed before, and was not done since",
    )
    parser.add_argument(
        "--reason",
        default="",
        metavar="TEXT",
        help="with --retry-failed: only failures whose reason has this text",
    )


def run_annotate(args: argparse.Namespace) -> int:
    """Run the annotators. Returns 1 when a subject failed, or data of a file is lost.

    Raises:
        RequestError: --model is given for several annotators, or an option that none of them has.
    """
    check_label_arguments(args)
    workspace = open_workspace(args)
    labels = _read_labels(args, workspace)
    where = args.where if labels is None else restrict_filter_to_labels(labels, args.where)
    request = _requested_run(args, where)
    if args.dry_run:
        _answer_quotes(args, workspace.stores, request)
        return 0
    reports = run_annotators(workspace.stores, request)
    documents = [report.to_json() for report in reports]
    if labels is None or not reports[0].planned:
        _answer_reports(args, documents, lambda: _report_blocks(documents))
    else:
        evaluation = evaluate(args, workspace, labels, reports[0].maker)
        document = {**documents[0], "evaluation": evaluation.to_json()}
        _answer_reports(
            args, [document], lambda: chain(_report_blocks(documents), format_success_evaluation(evaluation))
        )
    return _exit_status(reports)


def _exit_status(reports: Sequence[AnnotateReport]) -> int:
    """The status of a run; a line on standard error for each annotator whose work was ended."""
    for report in reports:
        if report.ended_by:
            rest = f"; {report.open} are open: the same command goes on" if report.open else ""
            write_stderr(f"ares annotate: {report.annotator}: {report.end_reason}{rest}")
    ends = {report.ended_by for report in reports}
    for end, status in END_STATUSES.items():
        if end in ends:
            return status
    is_done = not any(report.has_new_failures or report.ended_by or report.lost for report in reports)
    return ExitStatus.DONE if is_done else ExitStatus.ITEMS_FAILED


def _requested_run(args: argparse.Namespace, where: str) -> AnnotateRequest:
    return AnnotateRequest(
        names=tuple(args.name),
        selection=EpisodeSelection(where=where, limit=args.limit),
        model=args.model,
        device=args.device,
        options=args.option_values,
        budget_usd=args.budget,
        strict=args.strict,
        retry_failed=args.retry_failed,
        reason=args.reason,
        engine=args.engine,
        workers=args.workers,
        per_worker=args.per_worker,
    )


def _answer_quotes(args: argparse.Namespace, stores: Stores, request: AnnotateRequest) -> None:
    """Print what a run would do and cost."""
    quotes = [estimate.to_json() for estimate in estimate_run(stores, request)]
    _answer_reports(args, quotes, lambda: _estimate_blocks(quotes))


def _read_labels(args: argparse.Namespace, workspace: Workspace) -> Labels | None:
    if not args.evaluate:
        return None
    from annotators.success import read_outcome_labels

    return read_outcome_labels(args.evaluate, workspace.stores)


def _answer_reports(
    args: argparse.Namespace,
    reports: list[dict[str, Json]],
    build_text: Callable[[], Block | Iterator[Block]],
) -> None:
    """Print the document of one annotator, or the list of those of several."""
    document: Json = reports[0] if len(reports) == 1 else [dict(report) for report in reports]
    answer(args, document, build_text)


def _estimate_blocks(quotes: list[dict[str, Json]]) -> Iterator[Block]:
    yield _report_table(quotes, _QUOTE_KEYS)
    for quote in quotes:
        if quote["measured"]:
            yield f"{quote['annotator']}: scaled up from what {quote['measured']} have cost in this workspace"
        if quote["planned"] == quote["already"]:
            pass  # nothing is left that takes time
        elif (seconds := quote["seconds"]) is None:
            yield f"{quote['annotator']}: time unknown: no earlier job to measure by"
        else:
            assert isinstance(seconds, float) and isinstance(quote["timed"], int)
            timed = count_of(quote["timed"], "item")
            yield f"{quote['annotator']}: {describe_seconds(seconds)}, by {timed} of earlier jobs"
        if quote["again"]:
            yield f"{quote['annotator']}: {quote['again']} of them have a value of another maker, made again here"
    unknown = [str(quote["annotator"]) for quote in quotes if quote["already"] is None]
    if unknown:
        yield (
            f"already: unknown until loaded, for {', '.join(unknown)}: the model was not loaded before from these "
            "files; the numbers are for all subjects"
        )


def _report_blocks(reports: list[dict[str, Json]]) -> Iterator[Block]:
    yield _report_table(reports, _REPORT_KEYS)
    for report in reports:
        if report["failures"]:
            yield (f"{report['annotator']} failed:", *tallies(report, "failures"))
        if report.get("lost"):
            yield (f"{report['annotator']} lost:", *tallies(report, "lost"))
        if report["warnings"]:
            yield (f"{report['annotator']} warnings:", *tallies(report, "warnings"))
        trust = cast("Mapping[str, Mapping[str, Json]]", report["judge_trust"])
        if trust:
            lines = [f"  {dataset}: {describe_trust(document)}" for dataset, document in trust.items()]
            yield (f"{report['annotator']}, the judge by its controls:", *lines)


def _report_table(reports: list[dict[str, Json]], keys: tuple[str, ...]) -> OutputTable:
    rows = [["unknown" if report[key] is None else report[key] for key in keys] for report in reports]
    return OutputTable(rows, [key.replace("_", " ") for key in keys])
