"""All groups of plug-ins with their protocols and folders, and how one is found by its name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from pathlib import PurePath
from types import FunctionType
from typing import TYPE_CHECKING, Any, ParamSpec, SupportsIndex, TypeVar

from ares.errors import AresError, PluginError, RequestError, UnknownAttribute, WrongArguments, storage_error
from ares.imports import find_moved_package, refuse_shadowing

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


Plugin = Callable[..., Any]


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
        refuse_shadowing(entry.module.partition(".")[0])
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


def say_who_makes(column: str) -> str:
    """ "`ares annotate caption` makes it; " for a column that a command makes, or ""."""
    return f"`ares {_COLUMN_COMMANDS[column]}` makes it; " if column in _COLUMN_COMMANDS else ""


# What people type for a column, of episodes and of segments, and the columns that they may mean.
_COLUMN_WORDS = {
    word: columns.split()
    for words, columns in (
        ("length len size", "num_steps duration_seconds start_seconds stop_seconds"),
        ("steps frames num_frames n_frames n_steps timesteps step_count", "num_steps"),
        ("duration seconds time secs duration_s", "duration_seconds start_seconds stop_seconds"),
        ("start begin start_time from_seconds", "start_seconds"),
        ("end stop finish end_time end_seconds", "stop_seconds"),
        ("fps hz rate frequency freq frame_rate framerate control_frequency sampling_rate", "rate_hz"),
        ("task tasks goal prompt command language lang language_instruction task_description", "instruction"),
        ("instruction_text description text words sentence", "instruction caption text"),
        ("captions captioned caption_text", "caption text"),
        ("robot_type robot_name robots embodiment platform arm_type", "robot"),
        ("succeeded successful outcome failed failure is_success label_success", "success"),
        ("camera cameras views camera_names image images video videos", "num_cameras camera"),
        ("id ids uuid episode episode_ids", "episode_id"),
        ("record index idx number name episode_index episode_name source_key", "key"),
        ("path file file_path filename file_name uri url location", "source"),
        ("source_dataset dataset_name repo_id corpus", "dataset"),
        ("tag label labels tagged", "tags"),
        ("note comment comments", "notes"),
        ("score quality rating grades graded", "grade quality_findings"),
        ("findings checks codes errors warnings faults", "quality_findings quality_codes"),
        ("accepted is_acceptable", "acceptable"),
        ("trust trusted judge refuted", "grade_refuted acceptable"),
        ("idle idleness rest_share", "idle_share"),
        ("speed velocity", "mean_speed"),
        ("distance travel", "path_length"),
        ("objects item", "object"),
        ("action actions verbs skill", "action_names verb"),
        ("state states observation proprio", "state_names"),
        ("created date day added imported ingested_at timestamp", "ingested"),
        ("duplicate duplicates is_duplicate", "duplicate_of"),
        ("meta info attributes extra extras", "metadata"),
        ("model maker producer author_name", "annotator author"),
    )
    for word in words.split()
}


# Columns of earlier versions, and what to use in their place: no table has them, and no producer fills them.
GONE_COLUMNS: Mapping[str, str] = {
    "acceptable_unproven": "acceptable, which any judge fills until it is refuted",
    "certified": "--min-precision, which asks for what people measured",
    "grade_trust": "acceptable, which is empty where the judge is refuted, or grade_refuted",
}


def suggest_column(name: str, columns: Collection[str]) -> str:
    """What to type in place of a name that is no column, with "; " or "? " behind it, or ""."""
    word = name[:100].lower()
    if word in GONE_COLUMNS:
        return f"it is gone: use {GONE_COLUMNS[word]}; "
    if word.startswith("metadata.") and "metadata" in columns:
        return f'write contains(metadata, \'"{word[9:]}": "VALUE"\') in a filter; '
    if hint := _match_word(word, columns):
        return hint
    meant = (column for column in _COLUMN_WORDS.get(word, ()) if say_who_makes(column))
    producers = (f"did you mean {column!r}? {say_who_makes(column)}" for column in meant)
    return say_who_makes(name) or next(producers, "") or did_you_mean(name, columns)


def _match_word(word: str, names: Collection[str]) -> str:
    known = [column for column in _COLUMN_WORDS.get(word, ()) if column in names]
    return f"did you mean {' or '.join(map(repr, known))}? " if known else ""


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


_PACKAGES = ("ares", "ingest", "annotators", "app")


def _first_line(error: BaseException) -> str:
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # an exception of a plug-in may be unable to describe itself
        return ""
    moved = find_moved_package(error)
    return f"{lines[0][:300]}{moved and f'; its names are in {moved}'}" if lines else ""


def _error_location(error: BaseException) -> str:
    """File and line of the plug-in that raised it, or that called what did: "annotator.py:12"."""
    from traceback import walk_tb

    frames = [
        (str(frame.f_globals.get("__name__")).partition(".")[0], frame.f_code.co_filename, line)
        for frame, line in walk_tb(error.__traceback__)
    ]
    guest = next((package for package, *_ in frames if package not in _PACKAGES), "")
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
ingesters = Registry("ingester", protocol="ingest.base:Ingester", folders=["ingest"])
annotators = Registry("annotator", protocol="annotators.base:Factory", folders=["annotators"])
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


def _typed_keywords(function: Callable[..., object]) -> list[str]:
    """The keywords of a function that takes `**options: Unpack[Options]`; its module has the TypedDict."""
    annotations = [str(text) for text in function.__annotations__.values()]
    named = [text.removeprefix("Unpack[").rstrip("]") for text in annotations if text.startswith("Unpack[")]
    return [key for name in named for key in function.__globals__[name].__annotations__]


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


# Types in annotations that a value is compared with; a whole number of NumPy is one, too.
_PLAIN_TYPES: dict[str, type | tuple[type, ...]] = {
    "str": str, "int": SupportsIndex, "bool": bool, "float": (int, float), "None": type(None),
    "os.PathLike[str]": os.PathLike, "Path": PurePath,
}  # fmt: skip


def _has_wrong_type(
    function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> bool:
    """Whether an argument is of none of the plain types that its annotation names."""
    for name, value in {**dict(zip(function.__code__.co_varnames, args, strict=False)), **kwargs}.items():
        parts = str(function.__annotations__.get(name, "")).split(" | ")
        types = [_PLAIN_TYPES[part] for part in parts if part in _PLAIN_TYPES]
        if len(types) == len(parts) and not any(isinstance(value, kind) for kind in types):
            return True
    return False


def refuse_unknown_keywords(function: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Let a function refuse arguments that it does not have, or cannot take, with the names of those that it has.

    Those of a `TypedDict` that it takes as `**keywords: Unpack[...]` are among them. Type checkers see the function
    as it is. An error of the operating system, such as a full disk, becomes a StoreError.
    """
    code = function.__code__  # a plain function; importing inspect takes 6 ms
    names = [name for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if name != "self"]
    names += _typed_keywords(function)
    takes_any = bool(code.co_flags & 0x08) and len(names) == code.co_argcount + code.co_kwonlyargcount - 1

    @wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        for name in () if takes_any else kwargs:
            if name not in names:
                hint = f"{did_you_mean(name, names)}there are: {', '.join(names) or 'none'}"
                raise WrongArguments(f"{function.__name__}() has no argument {name!r}", hint)
        try:
            return function(*args, **kwargs)
        except BrokenPipeError:  # of what is printed
            raise
        except OSError as error:
            raise storage_error(error) from error
        except (TypeError, ValueError, OverflowError, AttributeError) as error:
            # What is raised deeper, for arguments of the right types, is a fault of ours, and stays as it is.
            is_wrong = _is_raised_at(error, function) or _has_wrong_type(function, args, kwargs)
            if isinstance(error, AresError) or not is_wrong:
                raise
            hint = f"{_first_line(error)[:200]}; it takes {', '.join(names) or 'nothing'}"
            raise WrongArguments(f"{function.__name__}() cannot take these arguments", hint) from error

    return call


Kind = TypeVar("Kind", bound=type)


def explain_mistakes(kind: Kind) -> Kind:
    """Let the public methods of a class refuse wrong arguments, and the class say what it has for a wrong name.

    A class attribute `_episodes_at` says where its episodes are: the place in words, and the class of the view.
    """
    for name, member in list(vars(kind).items()):
        if not isinstance(member, FunctionType) or name.startswith("_") or hasattr(member, "__wrapped__"):
            continue
        # What a function of the user raises is his.
        if "function" not in member.__code__.co_varnames[: member.__code__.co_argcount]:
            setattr(kind, name, refuse_unknown_keywords(member))
    kind.__getattr__ = _refuse_attribute  # type: ignore[attr-defined]
    return kind


def _refuse_attribute(self: object, name: str) -> Any:
    kind = type(self)
    public = [known for known in dir(kind) if not known.startswith("_")]
    public += [known for known in getattr(self, "__dict__", ()) if not known.startswith("_")]
    owner, view_kind = getattr(kind, "_episodes_at", ("", None))
    remedy = _OTHER_NAMES.get(name, "") if owner or "where" in public else ""
    if hasattr(view_kind, name):
        hint = f"use {owner}.{name}"
    elif remedy:
        # A view is what the user has in hand: its methods need no name before them.
        remedy = re.sub(r"\bview\b", owner, remedy) if owner else re.sub(r"\bview\.", "", remedy)
        hint = f"use {remedy}"
    else:
        hint = f"{_match_word(name, public) or did_you_mean(name, public)}there are: {', '.join(public)}"
    raise UnknownAttribute(f"{kind.__name__!r} object has no attribute {name!r}", hint)


# What users of pandas, Hugging Face datasets, FiftyOne and LeRobot look for, and what does it here.
_REMEDIES = (
    ("filter query match loc select isin exists", "view.where('num_steps > 20')"),
    ("iloc select_by at iat", "view[0] or view[1:5] or view[[0, 2]]"),
    ("sort_values sort_by order_by nlargest nsmallest", "view.sort('num_steps', descending=True)"),
    ("limit limit_samples head", "view.take(10)"),
    ("tail skip", "view[-5:] or view[5:]"),
    ("first last", "view[0] or view[-1]"),
    ("shuffle", "view.sample(seed=1)"),
    ("shape count num_rows size num_episodes", "len(view)"),
    ("column_names dtypes features get_field_schema schema info", "view.columns"),
    ("unique distinct nunique count_values value_counts", "view['dataset'].value_counts()"),
    ("map apply iterrows itertuples transform", "view.to_pandas() or view.to_arrow().to_pylist()"),
    ("describe mean sum min max std median quantile bounds", "view.to_pandas().describe()"),
    (
        "agg aggregate pivot_table merge join",
        "view.sql('SELECT dataset, count(*) FROM episodes GROUP BY ALL') or view.to_pandas()",
    ),
    ("to_csv to_parquet to_json to_dict to_list to_numpy", "view.to_pandas() or view.to_arrow()"),
    ("makers", "ws.producers()"),
    ("to_polars", "polars.DataFrame(view)"),
    ("to_hf to_dataset", "datasets.Dataset(view.to_arrow())"),
    ("train_test_split random_split", "ws.sets.split(name, {'train': 0.9, 'val': 0.1})"),
    ("drop exclude remove_columns rename_column", "view - other or view.to_arrow(['success'])"),
    ("concatenate append concat extend union", "view | other"),
    ("set_field add_column assign with_column", "view.set_values(name, values)"),
    ("tag_samples tag tags add_tag", "ws.tag(name, view)"),
    ("tagged match_tags has_tag", "view.where(\"tagged('name')\")"),
    ("in_set", "view.where(\"in_set('name')\")"),
    ("reviewed", "view.where('reviewed()')"),
    ("actions jobs", "ws.tag, ws.remove, ws.export and the like, the methods of the workspace itself"),
    ("save persist freeze save_view clone", "ws.sets.create(name, view)"),
    ("export push_to_hub save_to_disk write", "ws.export(ws.sets.create(name, view), folder)"),
    ("values tolist items keys", "view['dataset'] or view.to_arrow()"),
)
_OTHER_NAMES = {name: remedy for names, remedy in _REMEDIES for name in names.split()}
