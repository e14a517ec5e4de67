"""From the items of a source to rows in the workspace: plan, read, check, write, report."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares_ingest.pipeline.find import IngestSources as IngestSources, find_datasets as find_datasets
    from ares_ingest.pipeline.plan_text import (
        format_ingest_plan as format_ingest_plan,
        format_unread_files as format_unread_files,
    )
    from ares_ingest.pipeline.read import (
        CHECKER as CHECKER,
        make_findings_annotation as make_findings_annotation,
    )
    from ares_ingest.pipeline.run import ingest_sources as ingest_sources
    from ares_ingest.pipeline.unread import account_for_unread as account_for_unread
    from ares_ingest.pipeline.write import check_unchecked_episodes as check_unchecked_episodes

__getattr__ = lazy_exports(__name__)
