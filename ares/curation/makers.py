"""Which maker's values fill the columns of a workspace, and the choice of another maker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ares.store.sync import MakerCatalog, load_applied_state, pin_makers, read_pins

if TYPE_CHECKING:
    from ares.store import Stores


def maker_catalog(stores: Stores) -> MakerCatalog:
    """The makers of a workspace, with the rules by which the tables show them now."""
    annotations = stores.annotations
    sequences = load_applied_state(stores.tables).maker_sequences
    return MakerCatalog(annotations.makers(), read_pins(annotations), sequences)


def use_makers(stores: Stores, makers: Mapping[str, str]) -> dict[str, str]:
    """Pin makers, so that their annotations alone fill the columns of their annotators.

    Args:
        stores: Stores of the workspace.
        makers: By annotator a maker_id, the unique start of one, or "newest" to unpin.

    Returns:
        The maker_id, or "newest", by annotator.

    Raises:
        RequestError: An annotator or a maker does not exist, or several begin so; then nothing is changed.
    """
    with stores.write_lock("the choice of makers"):
        pinned = pin_makers(stores.annotations, makers)
        stores.sync()
    return pinned
