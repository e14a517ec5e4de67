"""What users call in Python: a workspace with its episodes, sets and verbs."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.workspace.answer_rows import answer_from_row as answer_from_row
    from ares.workspace.answers import AnswerRow as AnswerRow
    from ares.workspace.arguments import SelectionOptions as SelectionOptions, read_id_file as read_id_file
    from ares.workspace.coverage import DatasetCoverage as DatasetCoverage
    from ares.workspace.dataset_sheet import DatasetSheet as DatasetSheet, is_dataset as is_dataset
    from ares.workspace.episode import PlayableVideo as PlayableVideo, StoredEpisode as StoredEpisode
    from ares.workspace.episodes import Episodes as Episodes
    from ares.workspace.measuring import (
        Measurement as Measurement,
        open_measurement as open_measurement,
    )
    from ares.workspace.names import (
        MOST_CHARACTERS as MOST_CHARACTERS,
        MOST_NAMES as MOST_NAMES,
        NameHit as NameHit,
        find_names as find_names,
    )
    from ares.workspace.operations import (
        Dashboard as Dashboard,
        check_datasets as check_datasets,
        estimate_run as estimate_run,
        fix_dataset as fix_dataset,
        ingest_datasets as ingest_datasets,
        plan_ingest as plan_ingest,
        run_annotators as run_annotators,
        serve_app as serve_app,
    )
    from ares.workspace.printed_tables import ResultTable as ResultTable, align_rows as align_rows
    from ares.workspace.requested_exports import list_in_source_order as list_in_source_order
    from ares.workspace.result_lists import (
        AnnotateReports as AnnotateReports,
        DuplicateTable as DuplicateTable,
        EstimateList as EstimateList,
        FindingList as FindingList,
        SearchResults as SearchResults,
    )
    from ares.workspace.sets import (
        SetCollection as SetCollection,
        StoredSet as StoredSet,
        create_measured_set as create_measured_set,
    )
    from ares.workspace.status import (
        WorkspaceStatus as WorkspaceStatus,
        producers_to_json as producers_to_json,
    )
    from ares.workspace.summary import (
        describe_annotations as describe_annotations,
        describe_grade as describe_grade,
        shown_annotation_ids as shown_annotation_ids,
    )
    from ares.workspace.workspace import (
        Workspace as Workspace,
        new_workspace as new_workspace,
        open_workspace as open_workspace,
    )

__getattr__ = lazy_exports(__name__)
