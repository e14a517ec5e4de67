"""Bulk jobs: engines and worker pools, pipelines, progress, counts of items and a log of failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.jobs.batch_sizer import BatchSizer
    from ares.jobs.engine import (
        BatchFunction,
        Engine,
        RequestedWorkers,
        WorkerLimits,
        WorkerNeeds,
        WorkerPool,
        changing_limit,
    )
    from ares.jobs.engines import ENGINE_NAMES, engine_or_local, open_engine
    from ares.jobs.failure_log import FAILURES, FailureLog, record_job, resolved_failures, utc_now
    from ares.jobs.ingest_plan import IngestPlan, LeftFile, PlannedDataset
    from ares.jobs.ingest_request import IngestRequest
    from ares.jobs.kept_values import KeptValue, ValueKeeper
    from ares.jobs.local import InlinePool, LocalEngine, ReplicaPool
    from ares.jobs.outcomes import (
        AnnotateEstimate,
        AnnotateReport,
        IngestReport,
        JobCounts,
        ReasonCount,
    )
    from ares.jobs.pipeline import PipelineStage, run_pipeline
    from ares.jobs.progress import Progress
    from ares.jobs.report import Report
    from ares.jobs.worker_process import MachineMemory, available_cores, machine_memory

__all__ = [
    "ENGINE_NAMES",
    "FAILURES",
    "AnnotateEstimate",
    "AnnotateReport",
    "BatchFunction",
    "BatchSizer",
    "Engine",
    "FailureLog",
    "IngestPlan",
    "IngestReport",
    "IngestRequest",
    "InlinePool",
    "JobCounts",
    "KeptValue",
    "LeftFile",
    "LocalEngine",
    "MachineMemory",
    "PipelineStage",
    "PlannedDataset",
    "Progress",
    "ReasonCount",
    "ReplicaPool",
    "Report",
    "RequestedWorkers",
    "ValueKeeper",
    "WorkerLimits",
    "WorkerNeeds",
    "WorkerPool",
    "available_cores",
    "changing_limit",
    "engine_or_local",
    "machine_memory",
    "open_engine",
    "record_job",
    "resolved_failures",
    "run_pipeline",
    "utc_now",
]

__getattr__ = lazy_exports(__name__)
