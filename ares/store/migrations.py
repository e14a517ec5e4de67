"""Upgrades of workspaces that an earlier version wrote: one named step per layout, each safe to kill and to repeat."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ares.errors import ReadOnlyWorkspace, StoreError
from ares.io import describe_os_error
from ares.messages import print_message
from ares.store.manifest import FORMAT, read_format, write_format
from ares.store.sync import applied_sequence, reset_applied_sequence

if TYPE_CHECKING:
    from ares.annotation import Maker
    from ares.store.stores import Stores

# What the code of layout 1 knew of its annotators, and the log says itself from layout 2 on.
_DECLARATIONS: Mapping[str, Mapping[str, Any]] = {
    "caption": {"fills_segments": True},
    "grade": {"subject_kind": "annotation", "after": ("caption",)},
}
_CURRENT_ONLY = {"grade": "acceptable"}


def migrate(stores: Stores) -> None:
    """Bring a workspace of an older layout to the newest one; a killed migration is taken up by the next call.

    Raises:
        StoreError: The workspace cannot be written.
    """
    try:
        with stores.write_lock("migration"):
            _take_steps(stores)
    except (OSError, ReadOnlyWorkspace) as error:
        cause = describe_os_error(error) if isinstance(error, OSError) else error.detail
        raise StoreError(
            "a workspace of an older layout is migrated where it can be written, and cannot be written here",
            f"{stores.path}: {cause}",
        ) from None


def _take_steps(stores: Stores) -> None:
    # Another process may have done it while this one waited.
    for layout in range(read_format(stores.path), FORMAT):
        name, step = _STEPS[layout]
        print_message(f"migrating {stores.path} to layout {layout + 1}: {name}")
        step(stores)
        write_format(stores.path, layout + 1)


def _add_subjects(stores: Stores) -> None:
    """Let makers say what they describe, and derive the tables from the log anew: it is complete in every layout."""
    for maker in stores.annotations.makers().values():
        upgraded = _upgraded(maker)
        if upgraded != maker:
            stores.annotations.add_maker(upgraded)
    connection = stores.tables.connection
    segments = connection.open_dataset("segments")
    if segments is not None and "segment_id" not in segments.schema.names:
        connection.drop_table("segments")
    reset_applied_sequence(stores.tables)
    try:
        stores.sync()
    except StoreError as error:
        # Values that fit no column cost themselves alone: everything else is applied by then.
        if applied_sequence(stores.tables) < stores.annotations.last_sequence():
            raise
        print_message(f"migrating {stores.path}: {error}")
    if segments is not None:
        stores.tables.optimize()


def _upgraded(maker: Maker) -> Maker:
    columns = tuple(
        replace(column, needs_current_maker=column.name == _CURRENT_ONLY.get(maker.annotator))
        for column in maker.columns
    )
    return replace(maker, columns=columns, **_DECLARATIONS.get(maker.annotator, {}))


# By the layout that a step starts from.
_STEPS: Mapping[int, tuple[str, Callable[[Stores], None]]] = {
    1: ("annotations say what they are about", _add_subjects),
}
