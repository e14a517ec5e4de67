"""Options that an annotator declares for itself: their model, and the values of a run for each annotator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from ares.episode import Json
from ares.errors import RequestError

_MODEL_ATTRIBUTE = "options_model"
# Of the annotators that ship, those that measure signals and columns: they have no model.
WITHOUT_MODEL = ("motion",)


class AnnotatorOptions(BaseModel):
    """Base of the options of one annotator: each field has a default, and a description that is the help of its flag.

    Attributes:
        not_in_producer: Fields that cannot change a value, such as a batch size; all others are part of the
            producer's id.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    not_in_producer: ClassVar[frozenset[str]] = frozenset()

    def producer_settings(self) -> dict[str, Json]:
        """The options as entries of `Producer.settings`, so that another value makes another producer."""
        return self.model_dump(mode="json", exclude=set(self.not_in_producer))


ParsedOptions = TypeVar("ParsedOptions", bound=AnnotatorOptions)
AnyFactory = TypeVar("AnyFactory", bound=Callable[..., Any])


def takes_options(model: type[AnnotatorOptions]) -> Callable[[AnyFactory], AnyFactory]:
    """Declare the options of the annotator that a factory makes; the factory reads them by `options.parse(model)`."""

    def declare(factory: AnyFactory) -> AnyFactory:
        setattr(factory, _MODEL_ATTRIBUTE, model)
        return factory

    return declare


def options_model(factory: Callable[..., Any]) -> type[AnnotatorOptions]:
    """The model that a factory declared; a model without fields when it declared none."""
    model: type[AnnotatorOptions] = getattr(factory, _MODEL_ATTRIBUTE, AnnotatorOptions)
    return model


def parse_options(
    model: type[ParsedOptions], values: Mapping[str, Json], annotator: str = ""
) -> ParsedOptions:
    """The options of one annotator.

    Args:
        model: The model that it declared.
        values: Values by field; the other fields have their defaults.
        annotator: Its name for messages, or "".

    Raises:
        RequestError: A value is wrong, or the model has no such field.
    """
    _refuse_unknown(values, model.model_fields, f"there are: {_list_fields(model)}")
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise _wrong_value(error, model, annotator) from None


def select_options_by_annotator(
    values: Mapping[str, Json], models: Mapping[str, type[AnnotatorOptions]]
) -> dict[str, dict[str, Json]]:
    """Select the values of each annotator of a run, by field; all are checked before a model is loaded.

    Args:
        values: Values by option: "layout" for all annotators that have it, "caption.layout" for one of them.
        models: Models of the annotators of the run, by annotator.

    Raises:
        RequestError: A value is wrong, or no annotator of the run has such an option.
    """
    fields = [(name, field) for name, model in models.items() for field in model.model_fields]
    options = {option for name, field in fields for option in (field, f"{name}.{field}")}
    _refuse_unknown(
        values, options, "; ".join(f"{name} has {_list_fields(model)}" for name, model in models.items())
    )
    selected = {name: _select_values(values, name, model) for name, model in models.items()}
    for name, model in models.items():
        parse_options(model, selected[name], name)
    return selected


def check_single_model_option(model: str, names: Iterable[str]) -> None:
    """Raises RequestError where a model is named for several annotators of a run."""
    if model and len({*names}.difference(WITHOUT_MODEL)) > 1:
        raise RequestError(
            "a model goes with one annotator", f"got {' '.join(names)}; run them one at a time"
        )


def _select_values(values: Mapping[str, Json], name: str, model: type[AnnotatorOptions]) -> dict[str, Json]:
    """Values of one annotator by field; a value that addresses it has precedence."""
    general = {field: values[field] for field in model.model_fields if field in values}
    addressed = {
        field: values[f"{name}.{field}"] for field in model.model_fields if f"{name}.{field}" in values
    }
    return {**general, **addressed}


def _refuse_unknown(values: Mapping[str, Json], options: Iterable[str], choices: str) -> None:
    unknown = sorted(values.keys() - set(options))
    if unknown:
        raise RequestError(f"no option {unknown[0]!r}", choices)


def _list_fields(model: type[AnnotatorOptions]) -> str:
    return ", ".join(model.model_fields) or "no options"


def _wrong_value(error: ValidationError, model: type[AnnotatorOptions], annotator: str) -> RequestError:
    first = error.errors()[0]
    message = f"{first['input']!r}; {first['msg'].removeprefix('Value error, ')}"
    if not first["loc"]:
        return RequestError("options do not go together", message)
    field = str(first["loc"][0])
    option = f"{annotator}.{field}" if annotator else field
    return RequestError(
        f"wrong value of option {option!r}", f"{message}; {model.model_fields[field].description}"
    )
