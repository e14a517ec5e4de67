"""A judge must not share the captioner's language model: it would share its errors, and find fewer of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from annotators.grade.panel import PanelJudge
from annotators.models import compare_models, model_family
from ares.annotation import Maker
from ares.errors import RequestError

if TYPE_CHECKING:
    from ares.episode import Json


class NamedModel(Protocol):
    """A model by what is known of its origin."""

    @property
    def name(self) -> str:
        """Portable name."""

    @property
    def family(self) -> str:
        """Name of its model family."""

    @property
    def settings(self) -> Mapping[str, Json]:
        """Settings, with "served_from" where a server says what it has loaded."""


def kinship_error(judge: NamedModel, captioner: Maker, families_file: str) -> RequestError | None:
    """Why a judge, or one of a panel, may not rule on captions of a maker, or None.

    Args:
        judge: The judge, or the panel.
        captioner: The maker of the captions.
        families_file: The user's table of model families, or "".

    Raises:
        RequestError: The file cannot be read.
    """
    errors = (_error(member, captioner, families_file) for member in _members(judge))
    return next((error for error in errors if error), None)


def _members(judge: NamedModel) -> Sequence[NamedModel]:
    return judge.members if isinstance(judge, PanelJudge) else [judge]


def _error(judge: NamedModel, captioner: Maker, families_file: str) -> RequestError | None:
    captioner_family = str(captioner.settings.get("family") or model_family(captioner.model))
    if judge.name == captioner.model or judge.family == captioner_family:
        return RequestError(
            "the judge must not be of the captioner's model family",
            f"captions by {captioner.model!r}, judge {judge.name!r}; give a judge of another family (ARES_JUDGE_MODEL)",
        )
    kinship = compare_models(_judge_names(judge), _captioner_names(captioner), families_file)
    if kinship.closeness != "same":
        return None
    return RequestError(
        "the judge must not have the captioner's language model",
        f"captions by {captioner.model!r}, judge {judge.name!r}: both were trained from {kinship.language_model}; give "
        "another judge (ARES_JUDGE_MODEL), or correct the table (ARES_MODEL_FAMILIES)",
    )


def kinship_warnings(judge: NamedModel, captioners: Iterable[Maker], families_file: str) -> list[str]:
    """A warning for each captioner whose language model is another release of the judge's.

    Arguments and errors are those of `kinship_error`.
    """
    related = {
        (member.name, captioner.model): compare_models(
            _judge_names(member), _captioner_names(captioner), families_file
        )
        for captioner in captioners
        for member in _members(judge)
    }
    return [
        f"judge {name!r} and captioner {model!r} have language models of one family ({kinship.language_model}): "
        "they share errors; a judge of another family finds more of them (ARES_JUDGE_MODEL)"
        for (name, model), kinship in sorted(related.items())
        if kinship.closeness == "lineage"
    ]


def _judge_names(judge: NamedModel) -> list[str]:
    """The name of the judge, and the model that its server loaded under that name."""
    return [judge.name, *_served_from(judge.settings.get("served_from"))]


def _captioner_names(captioner: Maker) -> list[str]:
    return [captioner.model, *_served_from(captioner.settings.get("served_from"))]


def _served_from(root: object) -> list[str]:
    return [str(root)] if root else []
