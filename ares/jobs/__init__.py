"""Bulk jobs: engines and worker pools, pipelines, progress, counts of items and a log of failures."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.jobs.engine import (
        BatchFunction as BatchFunction,
        Engine as Engine,
        PoolRequest as PoolRequest,
        WorkerLimits as WorkerLimits,
        WorkerNeeds as WorkerNeeds,
        WorkerPool as WorkerPool,
    )
    from ares.jobs.failures import (
        ACCEPTED_FAILURES as ACCEPTED_FAILURES,
        COMPLETE as COMPLETE,
        COVERAGE as COVERAGE,
        FAILURES as FAILURES,
        INCOMPLETE_WORK as INCOMPLETE_WORK,
        FailureLog as FailureLog,
        find_incomplete_episodes as find_incomplete_episodes,
        location_subject as location_subject,
        resolved_failures as resolved_failures,
        utc_now as utc_now,
    )
    from ares.jobs.job_results import (
        AnnotateEstimate as AnnotateEstimate,
        AnnotateReport as AnnotateReport,
        IngestPlan as IngestPlan,
        IngestReport as IngestReport,
        JobCounts as JobCounts,
        PlannedDataset as PlannedDataset,
        ReasonCount as ReasonCount,
        UnreadFile as UnreadFile,
    )
    from ares.jobs.local import (
        InlinePool as InlinePool,
        LocalEngine as LocalEngine,
        available_cores as available_cores,
        engine_or_local as engine_or_local,
        open_engine as open_engine,
    )
    from ares.jobs.pipeline import (
        PipelineStage as PipelineStage,
        make_concurrency_getter as make_concurrency_getter,
        run_pipeline as run_pipeline,
    )
    from ares.jobs.progress import (
        Progress as Progress,
        watch_progress as watch_progress,
    )
    from ares.jobs.report import (
        Report as Report,
    )
    from ares.jobs.requests import (
        AnnotateKeywords as AnnotateKeywords,
        AnnotateRequest as AnnotateRequest,
        CheckRequest as CheckRequest,
        ComputePlan as ComputePlan,
        EpisodeSelection as EpisodeSelection,
        FixRequest as FixRequest,
        FunctionAnnotator as FunctionAnnotator,
        IngestRequest as IngestRequest,
        MediaMode as MediaMode,
        make_annotate_request as make_annotate_request,
        read_function_value as read_function_value,
    )
    from ares.jobs.worker_process import (
        machine_memory as machine_memory,
    )

__getattr__ = lazy_exports(__name__)
