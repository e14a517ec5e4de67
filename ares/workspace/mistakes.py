"""What is said of a wrong call in Python: which arguments and names there are, and what does it under another name."""

from __future__ import annotations

from types import FunctionType
from typing import Any, TypeVar

from ares.errors import UnknownAttribute
from ares.registry import did_you_mean, refuse_unknown_keywords

Kind = TypeVar("Kind", bound=type)


def explain_mistakes(kind: Kind) -> Kind:
    """Let the public methods of a class refuse wrong arguments, and the class say what it has for a wrong name."""
    for name, member in list(vars(kind).items()):
        is_method = isinstance(member, FunctionType) and not hasattr(member, "__wrapped__")
        # What a user's own function raises is his.
        if is_method and not name.startswith("_") and name != "map":
            setattr(kind, name, refuse_unknown_keywords(member))
    kind.__getattr__ = _refuse_attribute  # type: ignore[attr-defined]
    return kind


def _refuse_attribute(self: object, name: str) -> Any:
    kind = type(self)
    public = [known for known in dir(kind) if not known.startswith("_")]
    public += [known for known in getattr(self, "__dict__", ()) if not known.startswith("_")]
    remedy = _OTHER_NAMES.get(name, "")
    hint = f"use {remedy}" if remedy else f"{did_you_mean(name, public)}there are: {', '.join(public)}"
    raise UnknownAttribute(f"{kind.__name__!r} object has no attribute {name!r}", hint)


# What users of pandas, Hugging Face datasets, FiftyOne and LeRobot look for, and what does it here.
_REMEDIES = (
    ("filter query match loc select isin exists", "where('num_steps > 20')"),
    ("iloc select_by at iat", "view[number], view[1:5] or view[[0, 2]]"),
    ("sort_values order_by nlargest nsmallest", "sort('num_steps', descending=True)"),
    ("limit limit_samples", "take(10)"),
    ("shape count num_rows size num_episodes", "len(view)"),
    ("column_names dtypes features get_field_schema schema info", "columns"),
    ("unique distinct nunique count_values", "value_counts('dataset')"),
    ("apply iterrows itertuples transform", "map(function), or to_pandas()"),
    ("mean sum min max std median quantile bounds", "describe(), or to_pandas()"),
    ("agg aggregate pivot_table merge join", "sql('SELECT ... FROM episodes'), or to_pandas()"),
    ("to_csv to_parquet to_json to_dict to_list to_numpy", "to_pandas() or to_arrow(), which have it"),
    ("train_test_split random_split", "ws.sets.split(name)"),
    ("drop exclude remove_columns rename_column", "`-` for episodes, to_arrow([names]) for columns"),
    ("concatenate append concat extend union", "`|`"),
    (
        "set_values set_field add_column assign",
        "ws.tag(name, view), or `ares annotate valuation --scores FILE`",
    ),
    ("tag_samples tag tags add_tag", "ws.tag(name, view)"),
    ("match_tags has_tag", "tagged(name)"),
    ("save persist freeze save_view clone", "ws.sets.create(name, view)"),
    ("export push_to_hub save_to_disk write", "ws.export(name, folder) of ws.sets.create(name, view)"),
    ("values tolist items keys", "view['column'], or to_arrow()"),
)
_OTHER_NAMES = {name: remedy for names, remedy in _REMEDIES for name in names.split()}
