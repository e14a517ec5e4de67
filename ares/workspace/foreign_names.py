"""What users of pandas, Hugging Face datasets, FiftyOne and LeRobot type: names that work here, and what does the rest.

`dir` and the manual have one name for each thing. A name of another library that means the same works, too; any other
ends in an error with what does it here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from importlib.util import find_spec
from itertools import zip_longest
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, NoReturn, TypeGuard, TypeVar

from ares.errors import AresError, UnknownName, WrongArguments, shorten
from ares.imports import import_optional
from ares.registry import (
    column_of,
    describe_exception,
    nearest_names,
    read_foreign_names,
    refuse_unknown_keywords,
    suggest_column,
)
from ares.store import quote_literal

if TYPE_CHECKING:
    import pandas as pd

# Arguments of pandas that name columns; others hold values, which may look like one.
_COLUMN_ARGUMENTS = frozenset(
    ["by", "column", "columns", "func", "id_vars", "index", "keys", "labels", "on", "subset", "value_vars"]
)


def _read_column(view: Any, column: str) -> pd.Series[Any]:
    return view.to_pandas([column])[column]


def _list_values(self: Any, column: str | list[str]) -> Any:
    if isinstance(column, str):
        return self.to_arrow([column])[column].to_pylist()
    return [_list_values(self, name) for name in column]


def _sort_values(self: Any, by: str | list[str], ascending: bool | list[bool] = True) -> Any:
    return self.sort(by, not ascending if isinstance(ascending, bool) else [not flag for flag in ascending])


def _count_values(view: Any, column: str) -> pd.Series[int]:
    return _read_column(view, column).explode().value_counts()


def _count_all(self: Any, column: str) -> dict[Any, int]:
    """How many episodes have each value, also None, as FiftyOne counts; of lists each value."""
    import pyarrow.compute as pc

    values = self.to_arrow([column])[column]
    if self.columns[column_of(column, self.columns)].startswith("list"):
        values = pc.list_flatten(values)
    return {row["values"]: row["counts"] for row in pc.value_counts(values).to_pylist()}


def _drop_columns(self: Any, columns: str | list[str]) -> pd.DataFrame:
    for name in [columns] if isinstance(columns, str) else columns:
        if column_of(name, self.columns) not in self.columns:
            raise UnknownName(f"no column {name!r}", suggest_column(name, self.columns))
    return _call_pandas(self, "drop", columns=columns)


def _drop_duplicates(self: Any, subset: str | list[str], keep: Any = "first") -> Any:
    names = [subset] if isinstance(subset, str) else list(subset)
    return self[~self.to_pandas(names).astype(str).duplicated(keep=keep)]


def _match_tags(self: Any, tags: str | list[str]) -> Any:
    names = [tags] if isinstance(tags, str) else tags
    return self.where(" OR ".join(f"tagged({quote_literal(tag)})" for tag in names) or "false")


def _count_bins(self: Any, column: str, bins: int = 10) -> tuple[list[int], list[float], int]:
    values = _read_column(self, column)
    counts, edges = import_optional("numpy").histogram(values.dropna(), bins)
    return counts.tolist(), edges.tolist(), int(values.isna().sum())


def _filter_rows(
    self: Any,
    condition: Any,
    num_proc: int = 1,
    with_indices: bool = False,
    input_columns: str | list[str] = "",
) -> Any:
    names = [input_columns] if isinstance(input_columns, str) else input_columns
    if not with_indices and not input_columns:
        return self.where(condition)
    numbers = enumerate(self)
    arguments = (
        (n, [episode[name] for name in names] if input_columns else [episode]) for n, episode in numbers
    )
    return self[[n for n, parts in arguments if condition(*parts, *([n] if with_indices else []))]]


def _query_rows(self: Any, condition: Any) -> Any:
    """A filter, or a condition of pandas, which is applied to the frame of the view."""
    try:
        return self.where(condition)
    except AresError:
        words = dict.fromkeys(re.findall(r"\w+", str(condition)))
        names = [word for word in words if column_of(word, self.columns) in self.columns]
        with suppress(Exception):  # what is no condition of pandas either is told as a filter
            return self[self.to_pandas(names).eval(condition)]
        if "@" in str(condition):
            form = "view.where(f'num_steps > {n}')"
            raise WrongArguments("a query reads no variable of Python", f"with n = 50: use {form}") from None
        raise


def _step_bounds(view: Any) -> dict[str, Any]:
    """The first step of each episode, and the one behind its last, (N,) integers, as LeRobot numbers them."""
    ends = view["num_steps"].cumsum()
    return {"from": (ends - view["num_steps"]).to_numpy(), "to": ends.to_numpy()}


def _shared_value(column: str, view: Any) -> Any:
    """What all episodes have in a column. Raises UnknownName where they differ."""
    values = view.unique(column)
    if len(values) != 1:
        different = ", ".join(map(str, values[:4]))
        raise UnknownName(f"the episodes have no single {column}: {different}", f"use view[{column!r}]")
    return values[0]


def _list_camera_keys(view: Any) -> list[str]:
    """The cameras that some episode has, as LeRobot names them."""
    import pyarrow.compute as pc

    cameras = pc.list_flatten(view.to_arrow(["cameras"])["cameras"])
    names = pc.struct_field(cameras, "name").unique().to_pylist()
    return [f"observation.images.{name}" for name in sorted(names)]


class _ColumnKind(str):
    """The type of a column, which `datasets` has below `dtype`."""

    dtype = property(str)


class _ColumnKinds(dict[str, _ColumnKind]):
    """The types of columns, without the signals that an episode has."""

    def __missing__(self, name: str) -> NoReturn:
        raise UnknownName(f"no column {name!r}", f"an episode has its signals: use view[0][{name!r}].shape")


# Methods and attributes of a view elsewhere.
_VIEW_NAMES: Mapping[str, Callable[..., Any] | property] = {
    name: function
    for names, function in (
        ("filter match", _filter_rows),
        ("query", _query_rows),
        ("group_by", lambda self, column: self.groupby(column)),
        (
            "std",
            lambda self, *column, **options: _call_pandas(
                self, "std", *column, **{"ddof": not column} | options
            ),
        ),
        ("concat concatenate union", lambda self, other: self | other),
        ("intersection", lambda self, other: self & other),
        ("difference", lambda self, other: self - other),
        ("flatten_indices", lambda self: self),
        ("add_column", lambda self, name, column: self.set_values(name, column)),
        ("head limit", lambda self, n=5: self.take(n)),
        ("tail", lambda self, n=5: self[max(0, len(self) - n) :]),
        ("skip", lambda self, n: self[n:]),
        ("first", lambda self: self[0]),
        ("last", lambda self: self[-1]),
        ("shuffle", lambda self, seed=0: self.sample(seed=seed)),
        ("sort_by order_by", lambda self, by, descending=False: self.sort(by, descending)),
        ("sort_values", _sort_values),
        ("select", lambda self, rows: self[rows]),
        ("exclude", lambda self, rows: self - self[rows]),
        ("select_columns select_fields", lambda self, columns: self.to_pandas(columns)),
        ("remove_columns", _drop_columns),
        ("rename_columns", lambda self, names: _call_pandas(self, "rename", columns=names)),
        ("rename_column", lambda self, old, new: _call_pandas(self, "rename", columns={old: new})),
        ("shard", lambda self, num_shards, index: self[index::num_shards]),
        (
            "iter iter_batches",
            lambda self, batch_size: (self[n : n + batch_size] for n in range(0, len(self), batch_size)),
        ),
        ("histogram_values", _count_bins),
        (
            "quantiles",
            lambda self, column, quantiles: _read_column(self, column).quantile(quantiles).tolist(),
        ),
        ("exists", lambda self, column, bool=True: self.where(f"{column} IS {'NOT ' if bool else ''}NULL")),
        ("match_tags", _match_tags),
        ("count", lambda self, column="": int(_read_column(self, column).count()) if column else len(self)),
        ("distinct unique", lambda self, column: sorted(_count_values(self, column).index)),
        ("count_values", _count_all),
        (
            "count_sample_tags",
            lambda self: _count_values(self, "tags").to_dict() if "tags" in self.columns else {},
        ),
        ("value_counts", _count_values),
        ("values", _list_values),
        ("nunique", lambda self: self.to_pandas().apply(lambda column: len(column.explode().value_counts()))),
        ("bounds", lambda self, column: tuple(_read_column(self, column).agg(["min", "max"]))),
        ("drop_duplicates", _drop_duplicates),
        ("get_field_schema", lambda self: self.columns),
        ("to_list", lambda self: self.to_arrow().to_pylist()),
        ("iter_samples", lambda self, progress=False: iter(self)),
        ("num_rows num_episodes total_episodes", property(len)),
        ("meta episodes", property(lambda self: self)),
        ("camera_keys image_keys video_keys", property(_list_camera_keys)),
        ("tasks", property(lambda self: self.unique("instruction"))),
        ("robot_type", property(partial(_shared_value, "robot"))),
        ("fps", property(partial(_shared_value, "rate_hz"))),
        ("episode_data_index", property(_step_bounds)),
        ("num_frames total_frames", property(lambda self: int(self["num_steps"].sum()))),
        ("shape", property(lambda self: (len(self), len(self.columns)))),
        (
            "dtypes features schema",
            property(
                lambda self: _ColumnKinds({name: _ColumnKind(kind) for name, kind in self.columns.items()})
            ),
        ),
        ("column_names", property(lambda self: list(self.columns))),
        ("iloc loc", property(lambda self: self)),
    )
    for name in names.split()
}


def _search_similar(workspace: Any, query: Any, k: int = 20) -> Any:
    """Episodes near to one, which is given as it is or by its id, or to a text."""
    is_text = isinstance(query, str) and query not in workspace.episodes
    return workspace.search(query, limit=k) if is_text else workspace.search(like=query, limit=k)


# Methods of a workspace elsewhere.
_WORKSPACE_NAMES: Mapping[str, Callable[..., Any]] = {
    "save_view": lambda self, name, view: self.sets.create(name, view),
    "list_saved_views": lambda self: list(self.sets),
    "load_saved_view": lambda self, name: self.sets[name].members,
    "delete_saved_view": lambda self, name: self.sets.delete(name),
    "sort_by_similarity": _search_similar,
}
MISSING = object()


def resolve_workspace_name(workspace: Any, name: str) -> Any:
    """What a name of another library is of a workspace; MISSING for any other."""
    function = _WORKSPACE_NAMES.get(name)
    return MethodType(refuse_unknown_keywords(function, name), workspace) if function else MISSING


def resolve_view_name(view: Any, name: str) -> Any:
    """What a name of another library is of a view: a method, a value or a column; MISSING for any other."""
    if isinstance(value := _VIEW_NAMES.get(name), FunctionType):
        return MethodType(refuse_unknown_keywords(value, name), view)
    if isinstance(value, property):
        return value.__get__(view)
    if column_of(name, view.columns) in view.columns:
        return view[name]
    if name not in read_foreign_names()["view"] and is_of_pandas(name):
        return partial(_call_pandas, view, name)
    return MISSING


def is_of_pandas(name: str) -> bool:
    """Whether pandas is there, and its frames have a method of that name."""
    return find_spec("pandas") is not None and callable(
        getattr(import_optional("pandas").DataFrame, name, None)
    )


def number_columns(view: Any) -> list[str]:
    """The columns of numbers and of flags."""
    return [name for name, kind in view.columns.items() if kind.startswith(("int", "uint", "float", "bool"))]


def read_numbers(view: Any, names: list[str], leave: Collection[str] = ()) -> pd.DataFrame:
    """Columns of a view, in which flags are 1.0, 0.0 or missing, except some."""
    kinds = view.columns
    flags = [name for name in names if kinds.get(name) == "bool" and name not in leave]
    return view.to_pandas(names).astype(dict.fromkeys(flags, float))


def _call_pandas(view: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    """The result of a method of pandas on the frame of a view, which is read now."""
    if kwargs.get("inplace"):
        raise WrongArguments("a view is not changed in place", f"leave inplace out: view.{name}(...)")
    from inspect import signature

    parameters = signature(getattr(import_optional("pandas").DataFrame, name)).parameters
    of_columns = _COLUMN_ARGUMENTS | ({"values"} if name.startswith("pivot") else set())
    args = tuple(
        _translate_names(view, value) if key in of_columns else value
        for key, value in zip_longest(list(parameters)[1 : len(args) + 1], args)
    )
    kwargs = {
        key: _translate_names(view, value) if key in of_columns else value for key, value in kwargs.items()
    }
    if (name != "describe" or "include" in kwargs) and "numeric_only" not in parameters:
        frame = view.to_pandas()
    elif args and isinstance(args[0], str):
        frame, args = view[args[0]], args[1:]
    else:
        frame = read_numbers(view, number_columns(view))
    return call_other_library(getattr(frame, name), *args, **kwargs)


def _translate_names(view: Any, value: Any) -> Any:
    """An argument of pandas in which the names of columns elsewhere are those of the view."""
    if isinstance(value, str):
        return column_of(value, view.columns)
    if isinstance(value, Mapping):
        return {_translate_names(view, name): part for name, part in value.items()}
    return (
        type(value)(_translate_names(view, part) for part in value)
        if isinstance(value, list | tuple)
        else value
    )


def call_other_library(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of a function of another library. Raises WrongArguments for whatever it raises."""
    try:
        return function(*args, **kwargs)
    except AresError:
        raise
    except Exception as error:
        hint = describe_exception(error)
        raise WrongArguments(f"{function.__name__}() cannot take these arguments", hint) from error


Kind = TypeVar("Kind", bound=type)


def explain_mistakes(kind: Kind) -> Kind:
    """Let the public methods of a class refuse wrong arguments, and the class say what it has for a wrong name.

    Three class attributes help: `_called` is how messages call an object of it, `_part` how they call its episodes,
    with the class of these, which answer to what it lacks, and `_resolve_name` gives further names, or MISSING.
    """
    for name, member in list(vars(kind).items()):
        if not isinstance(member, FunctionType) or name.startswith("_") or hasattr(member, "__wrapped__"):
            continue
        # What a function of the user raises is his.
        if "function" not in member.__code__.co_varnames[: member.__code__.co_argcount]:
            setattr(kind, name, refuse_unknown_keywords(member))
    kind.__getattr__ = _find_attribute  # type: ignore[attr-defined]
    for method in ("__getitem__", "__setitem__", "__delitem__"):
        if not hasattr(kind, method):
            setattr(kind, method, make_refusal(method))
    kind.__call__ = _refuse_call  # type: ignore[method-assign]
    return kind


def _refuse_call(self: Any, *args: object, **kwargs: object) -> NoReturn:
    called = getattr(self, "_called", type(self).__name__)
    raise WrongArguments(f"{called} is not called as a function", "leave out the ()")


def is_function(value: object) -> TypeGuard[Callable[..., Any]]:
    """Whether it can be called, unlike an object that only says that it is not."""
    return callable(value) and type(value).__call__ is not _refuse_call


def make_refusal(method: str) -> Callable[..., NoReturn]:
    """A method of that name, which Python calls for brackets, where an object has none."""

    def refuse(self: object, key: object, *values: object) -> NoReturn:
        called = getattr(self, "_called", type(self).__name__)
        is_field = method == "__getitem__" and isinstance(key, str) and hasattr(self, key)
        form = f"use {called}.{key}" if is_field else suggest_form(self, method)
        hint = form.replace(f".{method}", f"[{shorten(repr(key), 40)}]")
        what = "read" if method == "__getitem__" else "changed"
        raise WrongArguments(f"{called}[{shorten(repr(key), 40)}] cannot be {what}", hint)

    return refuse


def _find_attribute(self: object, name: str) -> Any:
    """What `__getattr__` gives: the value of a further name. Raises UnknownName with what does its work."""
    kind = type(self)
    if any(name in vars(base) for base in kind.__mro__):
        return kind.__getattribute__(self, name)  # the error of a property stays as it is
    reason = f"{kind.__name__!r} object has no attribute {name!r}"
    if name.startswith("_"):  # Python, pickle and notebooks ask for many
        raise UnknownName(reason)
    value = kind._resolve_name(self, name) if hasattr(kind, "_resolve_name") else MISSING
    if (
        value is MISSING
        and hasattr(kind, "_part")
        and name not in read_foreign_names().get(getattr(self, "_called", ""), {})
    ):
        value = getattr(getattr(self, kind._part[0].rpartition(".")[2]), name, MISSING)
    if value is MISSING:
        raise UnknownName(reason, suggest_form(self, name))
    return value


def suggest_form(self: Any, name: str) -> str:
    """What to type in place of a name that an object does not have."""
    kind = type(self)
    called = getattr(self, "_called", kind.__name__)
    if form := read_foreign_names().get(called, {}).get(name):
        return f"use {form}"
    if hasattr(kind, "_part"):
        owner, part = kind._part
        if form := read_foreign_names()[part._called].get(name):
            return "use " + re.sub(rf"\b{part._called}\b", owner, form)
    if isinstance(self, Mapping) and name in self:
        return f"use {called}[{name!r}]"
    if hasattr(kind, "to_pandas") and is_of_pandas(name):
        return f"use {called}.to_pandas().{name}(...)"
    public = [known for known in dir(self) if not known.startswith("_")]
    columns = self.columns if hasattr(kind, "columns") else self.keys() if hasattr(kind, "keys") else ()
    foreign = _VIEW_NAMES if called == "view" else ()
    if nearest := nearest_names(name, [*public, *foreign, *map(str, columns)]):
        forms = (f".{known}" if hasattr(self, known) else f"[{known!r}]" for known in nearest)
        return f"use {' or '.join(called + form for form in forms)}"
    for part in (called, *((kind._part[1]._called,) if hasattr(kind, "_part") else ())):
        for pattern, form in read_foreign_names().get(part, {}).items():
            if "*" in pattern and fnmatchcase(name, pattern):
                return "use " + (form if part == called else re.sub(rf"\b{part}\b", kind._part[0], form))
    return f"{suggest_column(name, list(columns))}there are: {', '.join([*public, *foreign])}"
