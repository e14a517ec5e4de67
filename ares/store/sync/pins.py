"""Which maker fills the columns of an annotator, where a person has chosen one: state of the workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.errors import RequestError

if TYPE_CHECKING:
    from ares.annotation import Maker
    from ares.store.annotations import AnnotationStore

PINS = "pins"
NEWEST = "newest"


def read_pins(annotations: AnnotationStore) -> dict[str, str]:
    """The pinned maker_id by annotator."""
    return {name: str(maker_id) for name, maker_id in annotations.find_documents(PINS)}


def pin_maker(annotations: AnnotationStore, annotator: str, maker: str) -> str:
    """Pin a maker, so that its annotations alone fill the columns of its annotator; `Stores.sync` applies it.

    Args:
        annotations: The log.
        annotator: Name of the annotator ("caption").
        maker: A maker_id, the unique start of one, or "newest" to unpin.

    Returns:
        The maker_id, or "newest".

    Raises:
        RequestError: No maker, or several, of this annotator begin so.
    """
    makers = {
        maker_id: value for maker_id, value in annotations.makers().items() if value.annotator == annotator
    }
    if not makers:
        names = sorted({value.annotator for value in annotations.makers().values()})
        raise RequestError(
            f"no annotator {annotator!r} has worked here", f"there are: {', '.join(names) or 'none'}"
        )
    if maker == NEWEST:
        annotations.drop_documents(PINS, [annotator])
        return NEWEST
    (maker_id,) = [key for key in makers if key.startswith(maker)] if _is_unique(maker, makers) else [""]
    if not maker_id:
        raise RequestError(
            f"no single maker {maker!r} of {annotator}",
            f"there are: {'; '.join(_label(value) for value in makers.values())}; or give {NEWEST!r}",
        )
    annotations.put_documents(PINS, {annotator: maker_id})
    return maker_id


def _is_unique(prefix: str, makers: dict[str, Maker]) -> bool:
    return bool(prefix) and sum(key.startswith(prefix) for key in makers) == 1


def _label(maker: Maker) -> str:
    return f"{maker.maker_id} ({maker.model or maker.kind} {maker.version})"
