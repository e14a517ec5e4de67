"""Views of episodes that people save under a name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from ares.console import count_of
from ares.episode import Json
from ares.errors import RequestError
from ares.names import check_name
from ares.settings import user_name
from ares.store import VIEW_KINDS, Action, read_history, record_action

if TYPE_CHECKING:
    from ares.store import Stores


_MAX_VIEW_CHARACTERS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedView:
    """A view under a name.

    Attributes:
        name: Its name.
        query: Parameters of its address, such as {"q": ["drawer"], "cut": ["0.6"]}.
        person: Who saved it.
        created: When, ISO 8601 time in UTC.
    """

    name: str
    query: Mapping[str, Sequence[str]]
    person: str
    created: str

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON."""
        query: dict[str, Json] = {name: list[Json](texts) for name, texts in self.query.items()}
        return {"name": self.name, "query": query, "person": self.person, "created": self.created}


def save_view(stores: Stores, name: str, query: Mapping[str, Sequence[str]], *, person: str = "") -> Action:
    """Save a view; it replaces one of the same name, which an undo brings back.

    Args:
        stores: Stores of the workspace.
        name: A name, see `ares.names.check_name`.
        query: Parameters of the address of the view; none for all episodes.
        person: Who saves it; the user by default.

    Raises:
        RequestError: The text cannot be a name, or the view is too long, or has parameters without values.
        StoreError: The log cannot be written.
    """
    check_name("view", name, lambda: (view.name for view in list_views(stores)))
    size = sum(len(text) for texts in query.values() for text in texts)
    if query and not 0 < size <= _MAX_VIEW_CHARACTERS:
        raise RequestError(
            "a view has a search or a filter",
            f"got {count_of(size, 'character', comma=True)} of at most {_MAX_VIEW_CHARACTERS:,}",
        )
    details: dict[str, Json] = {
        "name": name,
        "query": {key: list[Json](texts) for key, texts in query.items()},
    }
    return record_action(
        stores.annotations, "view_save", person.strip() or user_name(), count=1, details=details
    )


def delete_view(stores: Stores, name: str, *, person: str = "") -> Action:
    """Delete a view. Raises RequestError when there is none of that name, and StoreError."""
    _require_view(stores, name)
    return record_action(
        stores.annotations, "view_delete", person.strip() or user_name(), count=1, details={"name": name}
    )


def list_views(stores: Stores) -> list[SavedView]:
    """The views of a workspace, by name. Raises StoreError."""
    views: dict[str, SavedView] = {}
    for action in read_history(stores.annotations).effective(VIEW_KINDS):
        name = str(action.details["name"])
        if action.kind == "view_delete":
            views.pop(name, None)
            continue
        query = cast("Mapping[str, Sequence[str]]", action.details["query"])
        views[name] = SavedView(name=name, query=query, person=action.person, created=action.created)
    return [views[name] for name in sorted(views)]


def _require_view(stores: Stores, name: str) -> None:
    names = [view.name for view in list_views(stores)]
    if name not in names:
        raise RequestError(f"no view {name!r}", f"there are: {', '.join(names) or 'none yet'}")
