"""What an export of ARES says of an RLDS dataset in its metadata.json: the rate, and the names that RLDS lacks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.errors import SourceError
from ares.formats import DATASET_METADATA_FILE
from ares.input import read_json

if TYPE_CHECKING:
    from ingest.dataset_spec import DatasetSpec

_REFERENCE = f"{DATASET_METADATA_FILE} of an export of ARES"


@dataclass(frozen=True, slots=True)
class ExportedSpec:
    """The spec of a dataset that ARES exported.

    Attributes:
        spec: The spec.
        is_rate_assumed: Whether its rate was assumed when the dataset was exported.
    """

    spec: DatasetSpec
    is_rate_assumed: bool


def read_exported_spec(folder: Path, builtin: DatasetSpec | None) -> ExportedSpec | None:
    """The spec in the metadata.json of a dataset; None for a dataset that ARES did not export.

    Args:
        folder: Folder of the dataset.
        builtin: What ARES knows of the dataset by its name; it still holds where records were copied.

    Raises:
        SourceError: The file is not JSON, or what ARES writes into it has been changed to something wrong.
    """
    from pydantic import ValidationError

    from ingest.dataset_spec import DatasetSpec

    path = folder / DATASET_METADATA_FILE
    try:
        document = read_json(str(path))
    except OSError:
        return None
    if not isinstance(document, dict) or not {"ares", "records", "spec"} <= document.keys():
        return None
    is_copied = document["records"] == "copied"
    base: dict[str, Any] = builtin.model_dump() if is_copied and builtin else {"reference": _REFERENCE}
    try:
        spec = DatasetSpec.model_validate(base | document["spec"] | {"rate_hz": document.get("rate_hz")})
    except (ValidationError, TypeError) as error:
        first = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise SourceError("the spec of an exported dataset is wrong", f"{path}: {first}") from None
    return ExportedSpec(spec, document.get("rate_source") == "assumed")
