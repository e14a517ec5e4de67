"""What stands in the options file of a command: `--write-options` writes it, and `--options` reads it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from ares.input import (
    check_option_keys,
    format_option_groups,
    format_options,
    parse_option_values,
    read_options_document,
    write_options_text,
)
from ares_app.cli.output import answer

if TYPE_CHECKING:
    from ares.episode import Json
    from ares_annotators.options import AnnotatorOptions

_ANNOTATORS = "annotators"
_HEADER = """\
# Options of `ares {command}`. Pass this file with --options.
# A line behind "#" has a default; without "#" it decides.
"""


class CommandOptions(BaseModel):
    """Options of a command that stand in a file; each field has a default, and a description that is its comment."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class RunOptions(CommandOptions):
    """Options of a run of annotators that are of no annotator."""

    per_worker: Mapping[str, float] = Field(
        default={},
        description="what one worker takes, such as {cpus: 2, memory_gb: 8, gpus: 0.5}; the rest is as each annotator "
        "states",
    )
    reason: str = Field(
        default="",
        description="with --retry-failed: only failures whose reason has this text, such as no reply",
    )


class ExportFileOptions(CommandOptions):
    """Options of an export that few need."""

    retime: Literal["nearest", "hold"] = Field(
        default="nearest",
        description="with --fps, the step that is written for a second: the nearest, or hold: the last at or before it",
    )
    segments: tuple[str, ...] = Field(
        default=(),
        description="write texts of segments by models also where their grade is one of these; [none] writes no texts; "
        "by default those of people and sources, and what a judge accepts",
    )
    trim_idle: float | None = Field(
        default=None, description="cut still starts and ends, but so many seconds of them, such as 0.5"
    )
    interventions: str = Field(
        default="",
        description="write only the steps at which a person intervened (only), or all others (without)",
    )
    weights: str = Field(
        default="",
        description="write the weight of each episode: a column of numbers, or a CSV, JSONL or Parquet file with "
        "episode_id and weight",
    )
    strict: bool = Field(
        default=False,
        description="write nothing when an episode fails, or something is lacking for imitation learning",
    )


FileOptions = TypeVar("FileOptions", bound=CommandOptions)


def write_options(args: argparse.Namespace, model: type[CommandOptions], more: str = "") -> int:
    """Write the options file of a command, and say so. Raises RequestError where it cannot be written.

    Args:
        args: Parsed arguments with the file, `write_options`.
        model: Options of the command.
        more: What stands below them.
    """
    text = f"{_HEADER.format(command=args.command)}{format_options(model)}{more}"
    write_options_text(args.write_options, text)
    line = f"wrote {args.write_options}; edit it, and give it with --options"
    answer(args, {"options": args.write_options}, lambda: line)
    return 0


def read_options(path: str, model: type[FileOptions]) -> FileOptions:
    """The options of a command in a file; the defaults without one. Raises RequestError for a file that is wrong."""
    document = read_options_document(path, model.model_fields) if path else {}
    return parse_option_values(model, document, path)


def write_annotator_options(args: argparse.Namespace, names: Sequence[str]) -> int:
    """Write the options of a run and of its annotators. Raises RequestError for an unknown annotator."""
    models = {name: _options_of(name) for name in names}
    return write_options(args, RunOptions, format_option_groups(_ANNOTATORS, models))


def read_annotator_options(path: str, names: Sequence[str]) -> tuple[RunOptions, dict[str, Json]]:
    """The options of a run in a file, and those of its annotators by "caption.layout".

    Args:
        path: The file, or "" for none.
        names: The annotators of the run; the file may have options of others.

    Raises:
        RequestError: The file cannot be read, or an annotator or an option is unknown.
    """
    from ares.registry import annotators

    document = read_options_document(path, [*RunOptions.model_fields, _ANNOTATORS]) if path else {}
    groups: Any = document.pop(_ANNOTATORS, None)
    values = {
        f"{name}.{option}": value
        for name, group in check_option_keys(groups, annotators.names(), path).items()
        for option, value in check_option_keys(
            group, _options_of(name).model_fields, f"{path}: {name}"
        ).items()
        if name in names
    }
    return parse_option_values(RunOptions, document, path), values


def _options_of(name: str) -> type[AnnotatorOptions]:
    from ares.registry import annotators
    from ares_annotators.options import options_model

    return options_model(annotators.get(name))
