"""Whether a judge may rule on what another model says: not where they are of one family."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ares.errors import RequestError
from ares_annotators.models.base import model_family
from ares_annotators.models.model_families import find_family

if TYPE_CHECKING:
    from ares.annotation import Producer


def model_family_error(judge: Producer, captioner: Producer, families_file: str) -> RequestError | None:
    """Why a judge may not rule on captions of a producer, or None.

    Args:
        judge: The producer of what the judge says.
        captioner: The producer of the captions.
        families_file: The user's table of model families, or "".

    Raises:
        RequestError: The file cannot be read.
    """
    errors = (_family_error(member, captioner, families_file) for member in _list_members(judge))
    return next((error for error in errors if error), None)


def _list_members(judge: Producer) -> list[Producer]:
    """The judges that vote as one; another judge stands alone."""
    members = judge.settings.get("judges")
    parts: list[Any] = members if isinstance(members, list) else []
    return [replace(judge, model=part["judge"], settings=part) for part in parts] or [judge]


def _family_error(judge: Producer, captioner: Producer, families_file: str) -> RequestError | None:
    if judge.model == captioner.model or _family_of(judge) == _family_of(captioner):
        return RequestError(
            "the judge must not be of the captioner's model family",
            f"captions by {captioner.model!r}, judge {judge.model!r}; give a judge of another family "
            "(ARES_JUDGE_MODEL)",
        )
    releases, others = (_known_releases(producer, families_file) for producer in (judge, captioner))
    if not releases & others:
        return None
    return RequestError(
        "the judge must not have the captioner's language model",
        f"captions by {captioner.model!r}, judge {judge.model!r}: both were trained from {min(releases & others)}; "
        "give another judge (ARES_JUDGE_MODEL), or correct the table (ARES_MODEL_FAMILIES)",
    )


def _family_of(producer: Producer) -> str:
    return str(producer.settings.get("family") or model_family(producer.model))


def _known_releases(producer: Producer, families_file: str) -> set[str]:
    """Releases that a model was trained from, by its name and by what its server loaded under that name."""
    names = (producer.model, str(producer.settings.get("served_from") or producer.model))
    return {find_family(name, families_file).language_model for name in names} - {""}
