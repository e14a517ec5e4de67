"""A flag of `ares annotate` for each option of each installed annotator."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, get_origin

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from annotators.options import AnnotatorOptions


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
            _add_option_flag(group, dest, OptionField(annotator, name, info), is_shared=len(owners[name]) > 1)


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


def _add_option_flag(group: argparse._ArgumentGroup, dest: str, field: OptionField, is_shared: bool) -> None:
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
