"""Whether judges are of other model families than each other, and than the captioner."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from annotators.grade.vote import PanelJudge
from annotators.models import compare_models, model_family
from ares.errors import RequestError

if TYPE_CHECKING:
    from ares.annotation import Producer
    from ares.episode import Json


class ModelOrigin(Protocol):
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


def judge_members(judge: ModelOrigin) -> Sequence[ModelOrigin]:
    """The judges that vote as one; another judge stands alone."""
    return judge.members if isinstance(judge, PanelJudge) else [judge]


def check_judge_families(judges: Sequence[ModelOrigin], families_file: str) -> None:
    """Check that judges which vote together do not share their errors.

    Args:
        judges: The judges.
        families_file: The user's table of model families, or "".

    Raises:
        RequestError: Two of them have one language model, or the file cannot be read.
    """
    for number, judge in enumerate(judges):
        for other in judges[:number]:
            kinship = compare_models([judge.name], [other.name], families_file)
            if judge.family == other.family or kinship.closeness == "same":
                raise RequestError(
                    "several judges must be of different model families",
                    f"{other.name!r} and {judge.name!r} share their errors; give another judge for one of them",
                )


def model_family_error(judge: ModelOrigin, captioner: Producer, families_file: str) -> RequestError | None:
    """Why a judge, or one of several, may not rule on captions of a producer, or None.

    Args:
        judge: The judge, or several as one.
        captioner: The producer of the captions.
        families_file: The user's table of model families, or "".

    Raises:
        RequestError: The file cannot be read.
    """
    errors = (_member_family_error(member, captioner, families_file) for member in judge_members(judge))
    return next((error for error in errors if error), None)


def _member_family_error(judge: ModelOrigin, captioner: Producer, families_file: str) -> RequestError | None:
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


def model_family_warnings(
    judge: ModelOrigin, captioners: Iterable[Producer], families_file: str
) -> list[str]:
    """A warning for each captioner whose language model is another release of the judge's.

    Arguments and errors are those of `model_family_error`.
    """
    related = {
        (member.name, captioner.model): compare_models(
            _judge_names(member), _captioner_names(captioner), families_file
        )
        for captioner in captioners
        for member in judge_members(judge)
    }
    return [
        f"judge {name!r} and captioner {model!r} have language models of one family ({kinship.language_model}): "
        "they share errors; a judge of another family finds more of them (ARES_JUDGE_MODEL)"
        for (name, model), kinship in sorted(related.items())
        if kinship.closeness == "lineage"
    ]


def _judge_names(judge: ModelOrigin) -> list[str]:
    """The name of the judge, and the model that its server loaded under that name."""
    return [judge.name, *_served_from(judge.settings.get("served_from"))]


def _captioner_names(captioner: Producer) -> list[str]:
    return [captioner.model, *_served_from(captioner.settings.get("served_from"))]


def _served_from(root: object) -> list[str]:
    return [str(root)] if root else []
