"""All groups of plug-ins with their protocols and folders, and how one is found by its name."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, ParamSpec, SupportsIndex, TypeVar

from ares.errors import (
    AresError,
    PluginError,
    RequestError,
    UnknownName,
    WrongArguments,
    shorten,
    storage_error,
)
from ares.imports import PACKAGES

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


Plugin = Callable[..., Any]

# The command that makes a column, of those that are most asked for; a table lacks them until it has run.
_COLUMN_COMMANDS = {
    column: command
    for columns, command in (
        ("caption verb object", "annotate caption"),
        ("grade acceptable grade_refuted", "annotate grade"),
        ("idle_share path_length mean_speed joint_path_length", "annotate motion"),
        ("map_x map_y", "annotate map"),
        ("tags", "tag add"),
        ("notes", "note"),
    )
    for column in columns.split()
}
# Columns of earlier versions, and what to use in their place: no table has them, and no producer fills them.
GONE_COLUMNS: Mapping[str, str] = {
    "acceptable_unproven": "acceptable, which any judge fills until it is refuted",
    "certified": "--min-precision, which asks for what people measured",
    "grade_trust": "acceptable, which is empty where the judge is refuted, or grade_refuted",
}
# Similarity, 0 to 1, from which on a word is taken for a misspelt name; less have "start" and "state".
_TYPO = 0.85
# Types in annotations that a value is compared with; a whole number of NumPy is one, too.
_PLAIN_TYPES: dict[str, type | tuple[type, ...]] = {
    "str": str, "int": SupportsIndex, "bool": bool, "float": (int, float), "None": type(None),
    "os.PathLike[str]": os.PathLike, "Path": PurePath,
}  # fmt: skip


class Registry:
    """The plug-ins of one kind, by name.

    Args:
        kind: Singular noun for messages ("ingester"); the entry-point group is "ares.<kind>s".
        protocol: Type of the objects that the entry points name, as "module:Name"; a module alone has one for each.
        folders: Folders and files that hold the built-in plug-ins.
    """

    def __init__(self, kind: str, *, protocol: str = "", folders: Iterable[str] = ()) -> None:
        self.kind, self.protocol, self.folders = kind, protocol, tuple(folders)
        self._added: dict[str, Plugin] = {}
        self._loaded: dict[str, Plugin] = {}
        self._packages: dict[str, str] = {}

    def add(self, name: str, plugin: Plugin) -> None:
        """Add a plug-in without an entry point (tests, notebooks). Raises RequestError when the name exists."""
        if name in self.names():
            raise RequestError(f"{self.kind} {name!r} exists already", "choose another name")
        self._added[name] = plugin

    def remove(self, name: str) -> None:
        """Remove a plug-in that `add` added; a name that does not exist is ignored."""
        self._added.pop(name, None)

    def names(self) -> list[str]:
        """Return all names, sorted, without importing any plug-in."""
        return sorted({*self._added, *(entry.name for entry in self._entries())})

    def get(self, name: str) -> Plugin:
        """Return the plug-in of that name; a built-in one stands in pyproject.toml as "module:object".

        Raises:
            RequestError: The name is unknown, or several packages declare it.
            PluginError: The plug-in cannot be imported.
        """
        if name in self._added:
            return self._added[name]
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def package(self, name: str) -> str:
        """Name of the package that declares a plug-in; "" for one that `add` added, and for an unknown name."""
        if name in self._added:
            return ""
        if name not in self._packages:  # the name of a package is parsed from its metadata at every access
            entries = (entry for entry in self._entries() if entry.name == name)
            self._packages[name] = next((entry.dist.name for entry in entries if entry.dist), "")
        return self._packages[name]

    def fault(self, name: str, error: BaseException) -> PluginError:
        """The error for an exception that a plug-in raised; its reason names the plug-in and its package."""
        return plugin_fault(self.label(name), error)

    def label(self, name: str) -> str:
        """How messages name a plug-in: "annotator 'mine' of my-package"."""
        package = self.package(name)
        return f"{self.kind} {name!r}{f' of {package}' if package else ''}"

    def _load(self, name: str) -> Plugin:
        entries = [entry for entry in self._entries() if entry.name == name]
        if len({entry.value for entry in entries}) > 1:
            raise RequestError(
                f"several packages declare the {self.kind} {name!r}",
                ", ".join(entry.value for entry in entries),
            )
        if not entries:
            hint = did_you_mean(name, self.names())
            raise RequestError(f"no {self.kind} {name!r}", f"{hint}there are: {', '.join(self.names())}")
        entry = entries[0]
        try:
            plugin: Plugin = entry.load()
        except (AresError, KeyboardInterrupt):
            raise
        # A package may raise anything while it is imported, and even end the process.
        except BaseException as error:
            raise PluginError(
                f"{self.label(entry.name)} cannot be imported",
                f"{describe_exception(error)}; repair or uninstall the package",
            ) from error
        return plugin

    def _entries(self) -> tuple[EntryPoint, ...]:
        return tuple(_installed_entry_points().select(group=f"ares.{self.kind}s"))


def say_who_makes(column: str) -> str:
    """ "`ares annotate caption` makes it; " for a column that a command makes, or ""."""
    return f"`ares {_COLUMN_COMMANDS[column]}` makes it; " if column in _COLUMN_COMMANDS else ""


@cache
def read_foreign_names() -> dict[str, dict[str, str]]:
    """What people type by names of other libraries: what each is here, by the part of the table."""
    import yaml

    text = Path(__file__).with_name("foreign_names.yaml").read_text(encoding="utf-8")
    parts = yaml.safe_load(text)
    return {
        part: {name: here for names, here in rows.items() for name in names.split()}
        for part, rows in parts.items()
    }


def column_of(name: str, columns: Collection[str] = ()) -> str:
    """The column or signal of an episode that a name of another library is of; else the name, or where it is known."""
    return name if name in columns else read_foreign_names()["columns"].get(name, name)


def suggest_column(name: str, columns: Collection[str]) -> str:
    """What to type in place of a name that is no column, with "; " or "? " behind it, or ""."""
    word = name[:100].lower()
    if word in GONE_COLUMNS:
        return f"it is gone: use {GONE_COLUMNS[word]}; "
    if word.startswith("metadata.") and "metadata" in columns:
        return f'write contains(metadata, \'"{word[9:]}": "VALUE"\') in a filter; '
    meant = read_foreign_names()["meant"].get(word, "").split()
    nearest = nearest_names(word, columns)
    hint = f"did you mean {' or '.join(map(repr, nearest))}? " if nearest else ""
    if not set(nearest).isdisjoint(meant):
        return hint
    makers = (f"did you mean {column!r}? {maker}" for column in meant if (maker := say_who_makes(column)))
    return say_who_makes(name) or next(makers, "") or hint


def nearest_names(name: str, names: Collection[str]) -> list[str]:
    """Those of some names that people may mean by a word, or the one of which it is a slip of the fingers."""
    from difflib import get_close_matches

    word = name[:100].lower()
    known = [column for column in read_foreign_names()["meant"].get(word, "").split() if column in names]
    swapped = [other for other in names if sorted(other) == sorted(word)]
    like = [other for other in names if (other[:1], len(other)) == (word[:1], len(word))]  # "tesk" for "task"
    swapped += [other for other in like if sum(map(str.__ne__, other, word)) == 1]
    return known or swapped or get_close_matches(word, names, n=1, cutoff=_TYPO)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """ "did you mean 'caption'? " for the nearest of some names, or ""."""
    from difflib import get_close_matches

    known = list(names)
    # "lerobot" for "lerobot-v3.0": a version that is not there is nearer to the name alone than to another version.
    bare = [other for other in known if name.startswith(f"{other}-")]
    nearest = bare or get_close_matches(name[:100].lower(), known, n=1)
    return f"did you mean {nearest[0]!r}? " if nearest else ""


def plugin_fault(label: str, error: BaseException) -> PluginError:
    """The error for an exception that a plug-in raised.

    Args:
        label: `Registry.label` of the plug-in.
        error: What it raised.
    """
    location = _error_location(error)
    detail = f"{_first_line(error)}{f' ({location})' if location else ''}".strip()
    fault = PluginError(f"{label} raised {type(error).__name__}", detail)
    fault.__cause__ = error
    return fault


@contextmanager
def plugin_faults(label: str) -> Iterator[None]:
    """Turn every exception of a call into a plug-in into a PluginError; the errors of ARES are left as they are.

    That includes SystemExit: a plug-in that ends the process is a fault of it. KeyboardInterrupt is left.
    """
    try:
        yield
    except (AresError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise plugin_fault(label, error) from error


def describe_exception(error: BaseException) -> str:
    """Type and first line of an exception: "ValueError: no such column"."""
    line = _first_line(error)
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def _first_line(error: BaseException) -> str:
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # an exception of a plug-in may be unable to describe itself
        return ""
    return lines[0][:300] if lines else ""


def _error_location(error: BaseException) -> str:
    """File and line of the plug-in that raised it, or that called what did: "annotator.py:12"."""
    from traceback import walk_tb

    frames = [
        (str(frame.f_globals.get("__name__")).partition(".")[0], frame.f_code.co_filename, line)
        for frame, line in walk_tb(error.__traceback__)
    ]
    guest = next((package for package, *_ in frames if package not in PACKAGES), "")
    lines = [
        f"{PurePath(file).name}:{line}" for package, file, line in frames if package == guest or not guest
    ]
    return lines[-1] if lines else ""


@cache
def _installed_entry_points() -> Any:
    # Reading the metadata of all installed packages takes 10 to 20 ms, too long for every kind of every search;
    # importing the module takes 25 ms more, too long for `import ares` and `ares --help`.
    from importlib.metadata import entry_points

    return entry_points()


# Every group of plug-ins of ARES; CONTRIBUTING.md has a recipe for each.
ingesters = Registry("ingester", protocol="ares_ingest.base:Ingester", folders=["ingest"])
annotators = Registry("annotator", protocol="ares_annotators.base:Factory", folders=["annotators"])
exporters = Registry("exporter", protocol="ares.export.run:Exporter", folders=["ares/export"])
encoders = Registry("encoder", protocol="ares.search.encoding:Encoder", folders=["annotators/models"])
text_encoders = Registry(
    "text_encoder", protocol="ares.search.encoding:TextEncoder", folders=["annotators/models"]
)
rankers = Registry("ranker", protocol="ares.search.rankers.base:Ranker", folders=["ares/search/rankers"])
projections = Registry(
    "projection",
    protocol="ares.store.sync.projection_plugins:Projection",
    folders=["ares/rubric/grade_projection.py"],
)
# What `ares` calls in the packages above it: one function by name, each with a separate protocol.
operations = Registry(
    "operation", protocol="ares.workspace.operations", folders=["ingest", "annotators", "app"]
)


def _typed_keywords(function: Callable[..., object]) -> dict[str, str]:
    """Types of the keywords of a function that takes `**options: Unpack[Options]`; its module has the TypedDict."""
    annotations = [str(text) for text in function.__annotations__.values()]
    named = [text.removeprefix("Unpack[").rstrip("]") for text in annotations if text.startswith("Unpack[")]
    fields = [field for name in named for field in function.__globals__[name].__annotations__.items()]
    return {key: getattr(kind, "__forward_arg__", "") for key, kind in fields}


Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


def _is_raised_at(error: BaseException, function: Callable[..., object]) -> bool:
    """Whether a call of a function or the function itself raised an error, and nothing that it has called in turn."""
    frames = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame.f_code)
        trace = trace.tb_next
    return frames[-1] is function.__code__ or len(frames) == 1


def _describe_wrong_type(
    function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> str:
    """The first argument that is of none of the plain types of its annotation: "seed is int, got 'a'", or ""."""
    code = function.__code__
    named = [*zip(code.co_varnames[: code.co_argcount], args, strict=False), *kwargs.items()]
    if code.co_flags & 0x04:  # it takes any number of arguments
        rest = code.co_varnames[code.co_argcount + code.co_kwonlyargcount]
        named += [(rest, value) for value in args[code.co_argcount :]]
    annotations = {**_typed_keywords(function), **function.__annotations__}
    for name, value in named:
        annotation = str(annotations.get(name, ""))
        parts = annotation.split(" | ")
        types = [_PLAIN_TYPES[part] for part in parts if part in _PLAIN_TYPES]
        if len(types) == len(parts) and not any(isinstance(value, kind) for kind in types):
            return f"{name} is {annotation}, got {shorten(repr(value), 60)}"
    return ""


def refuse_unknown_keywords(
    function: Callable[Parameters, Returned], called: str = ""
) -> Callable[Parameters, Returned]:
    """Let a function refuse arguments that it does not have, or cannot take, with the names of those that it has.

    Those of a `TypedDict` that it takes as `**keywords: Unpack[...]` are among them. Type checkers see the function
    as it is. An error of the operating system, such as a full disk, becomes a StoreError.

    Args:
        function: The function.
        called: How messages call it; by default by its name.
    """
    called = called or function.__name__
    code = function.__code__  # a plain function; importing inspect takes 6 ms
    names = [name for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if name != "self"]
    names += _typed_keywords(function)
    takes_any = bool(code.co_flags & 0x08) and len(names) == code.co_argcount + code.co_kwonlyargcount - 1

    @wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        for name in () if takes_any else [name for name in kwargs if name not in names]:
            same = read_foreign_names()["keywords"].get(name, "")
            if same not in names or same in kwargs:
                form = read_foreign_names()["arguments"].get(name, "")
                hint = f"use {form}; " if form else did_you_mean(name, names)
                hint += f"there are: {', '.join(names) or 'none'}"
                raise WrongArguments(f"{called}() has no argument {name!r}", hint)
            kwargs[same] = kwargs.pop(name)
        try:
            return function(*args, **kwargs)
        except BrokenPipeError:  # of what is printed
            raise
        except OSError as error:
            raise storage_error(error) from error
        except (TypeError, ValueError, OverflowError, AttributeError) as error:
            # What is raised deeper, for arguments of the right types, is a fault of ours, and stays as it is.
            wrong = _describe_wrong_type(function, args, kwargs)
            is_ours = isinstance(error, AresError) and not (wrong and isinstance(error, UnknownName))
            if is_ours or not (wrong or _is_raised_at(error, function)):
                raise
            cause = _first_line(error)[:200].replace("<lambda>()", f"{called}()")
            hint = f"{wrong or cause}; it takes {', '.join(names) or 'nothing'}"
            raise WrongArguments(f"{called}() cannot take these arguments", hint) from error

    return call
