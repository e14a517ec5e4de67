"""From the items of a source to rows in the workspace: plan, read, check, write, report."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ingest.pipeline.find import IngestSources as IngestSources, find_datasets as find_datasets
    from ingest.pipeline.read import CHECKER as CHECKER, findings_annotation as findings_annotation
    from ingest.pipeline.run import (
        ingest_datasets as ingest_datasets,
        plan_lines as plan_lines,
        unread_lines as unread_lines,
    )
    from ingest.pipeline.write import check_unchecked_episodes as check_unchecked_episodes

__getattr__ = lazy_exports(__name__)
