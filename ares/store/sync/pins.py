"""Which maker fills the columns of an annotator, where a person has chosen one: state of the workspace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ares.episode import Json
from ares.errors import RequestError
from ares.registry import did_you_mean

if TYPE_CHECKING:
    from ares.annotation import Maker
    from ares.store.annotations import AnnotationStore

PINS = "pins"
NEWEST = "newest"


def read_pins(annotations: AnnotationStore) -> dict[str, str]:
    """The pinned maker_id by annotator."""
    return {name: str(maker_id) for name, maker_id in annotations.find_documents(PINS)}


def pin_makers(annotations: AnnotationStore, choices: Mapping[str, str]) -> dict[str, str]:
    """Pin makers, so that their annotations alone fill the columns of their annotators; `Stores.sync` applies it.

    Args:
        annotations: The log.
        choices: By annotator a maker_id, the unique start of one, or "newest" to unpin.

    Returns:
        The maker_id, or "newest", by annotator.

    Raises:
        RequestError: No maker, or several, of an annotator begin so; then nothing is pinned.
    """
    makers = annotations.makers().values()
    maker_ids = {name: _find_maker_id(makers, name, choice) for name, choice in choices.items()}
    annotations.drop_documents(PINS, [name for name, maker_id in maker_ids.items() if maker_id == NEWEST])
    pins = {name: maker_id for name, maker_id in maker_ids.items() if maker_id != NEWEST}
    annotations.put_documents(PINS, dict[str, Json](pins))
    return maker_ids


def _find_maker_id(makers: Iterable[Maker], annotator: str, choice: str) -> str:
    own = [maker for maker in makers if maker.annotator == annotator]
    if not own:
        names = sorted({maker.annotator for maker in makers})
        raise RequestError(
            f"no annotator {annotator!r} has worked here",
            f"{did_you_mean(annotator, names)}there are: {', '.join(names) or 'none'}",
        )
    matches = [maker.maker_id for maker in own if choice and maker.maker_id.startswith(choice)]
    if choice != NEWEST and len(matches) != 1:
        raise RequestError(
            f"no single maker {choice!r} of {annotator}",
            f"there are: {'; '.join(map(_label, own))}; or give {NEWEST!r}",
        )
    return NEWEST if choice == NEWEST else matches[0]


def _label(maker: Maker) -> str:
    return f"{maker.maker_id} ({maker.model or maker.kind} {maker.version})"
