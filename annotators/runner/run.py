"""Runs annotators over the episodes that lack them, and reports on each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from ares.console import count_are, print_message
from ares.doctor import delete_unrecorded_vectors
from ares.errors import AresError, ModelError, PluginError, RequestError, ServerError
from ares.jobs import (
    FAILURES,
    AnnotateEstimate,
    AnnotateReport,
    AnnotateRequest,
    Engine,
    EpisodeSelection,
    LocalEngine,
    PipelineStage,
    Progress,
    Report,
    WorkerPool,
    engine_or_local,
    make_concurrency_getter,
    open_engine,
    run_pipeline,
)
from ares.rubric import read_tripwires
from ares.search import embed_texts, list_embedding_spaces
from ares.store import ProducerCatalog
from ares_annotators.base import (
    Budget,
    CameraSeconds,
    Frames,
    LayeredFrames,
    make_episode_subject,
    merge_frame_requests,
)
from ares_annotators.options import WITHOUT_MODEL
from ares_annotators.runner.annotator_run import (
    AnnotatorRun,
    EpisodeBundle,
    list_subject_ids,
    read_annotations,
    read_signals,
    read_stamps,
)
from ares_annotators.runner.decoding import make_failing_frames, open_decoder_pool
from ares_annotators.runner.fault_isolation import select_no_frames
from ares_annotators.runner.loading import (
    LoadedAnnotators,
    import_factories,
    list_options_by_annotator,
    load_run_annotators,
    make_factory_options,
)
from ares_annotators.runner.remote import restore_torch_threads
from ares_annotators.runner.writer import AnnotationWriter, refuse_columns_of_people

if TYPE_CHECKING:
    from ares.store import Stores
    from ares_annotators.runner.quote import RenewedQuote


def collect_run_reports(
    tasks: Sequence[AnnotatorRun],
    faults: Mapping[str, AresError],
    names: Sequence[str],
    episodes: int,
) -> tuple[AnnotateReport, ...]:
    """One report per annotator, in the order of the command.

    Args:
        tasks: The annotators that worked.
        faults: Why others could not work, by name.
        names: Names of all; those without a task and a fault had nothing to do.
        episodes: Number of episodes of the run. An annotator that could not be made has failed all of them; for one
            whose model cannot be had they are open.
    """
    reports = {task.plugin: task.to_report() for task in tasks}
    for name in names:
        if name in faults:
            reports[name] = _fault_report(name, faults[name], episodes)
        elif name not in reports:
            reports[name] = AnnotateReport(annotator=name, producer="", model="")
    return tuple(reports[name] for name in dict.fromkeys(names))


def _fault_report(name: str, error: AresError, episodes: int) -> AnnotateReport:
    """The report of an annotator that could not work; it has no producer."""
    if isinstance(error, ModelError):
        return AnnotateReport(
            annotator=name,
            producer="",
            model="",
            planned=episodes,
            open=episodes,
            ended_by="server" if isinstance(error, ServerError) else "model",
            end_reason=str(error),
        )
    report = Report()
    report.add_planned(episodes)
    for _ in range(episodes):
        report.add_failure(error, "all episodes")
    return AnnotateReport(annotator=name, producer="", model="", **report.fields())


def count_planned_episodes(stores: Stores, request: AnnotateRequest) -> int:
    """Most episodes that a run works on. Raises RequestError where the filter cannot be read."""
    matching = stores.tables.episodes.count(request.selection.condition)
    limit = request.selection.limit
    return matching if limit is None else min(limit, matching)


_READ_BATCH_SIZE = 8
# Reading signals costs a scan of the table, a third as much for each of 32 episodes as for each of 8.
_SIGNAL_BATCH_SIZE = 32
_PLAN_BATCH_SIZE = 500
# Threads that decode on this machine.
_READERS = 4


def annotate(
    stores: Stores, request: AnnotateRequest, *, quiet: bool = False, engine: Engine | None = None
) -> tuple[AnnotateReport, ...]:
    """Run annotators, in this order, over the episodes that lack their annotation.

    Args:
        stores: Where the episodes are and the annotations go.
        request: The annotators, the episodes and all that a person wants of the run.
        quiet: Show no progress.
        engine: One that is open, where frames are decoded and annotators work; None to open that of the request.

    Returns:
        One report per annotator.

    Raises:
        RequestError: An annotator or an option is unknown, a value of an option is wrong, the filter cannot be read, or
            there is a budget without a price.
        ModelError: No annotator has its model. What is to be done by one that has none stays open.
        PluginError: No annotator could be made. Else the fault of a plug-in is counted as the failure of the subject,
            or of all where it could not be made.
    """
    if request.budget_usd is not None and stores.settings.price is None:
        raise RequestError("a budget needs a price", "set ARES_PRICE=IN,OUT in US dollars per million tokens")
    report_line = _print_nothing if quiet else print_message
    with stores.write_lock(f"ares annotate {' '.join(request.names)}"), restore_torch_threads():
        stores.sync()
        total, names = count_planned_episodes(stores, request), _names_with_work(stores, request)
        if not total or not names:
            # The request is checked all the same, and filters may name the columns.
            producers = {
                task.plugin: task.annotator.producer for task in _load_without_models(stores, request)
            }
            stores.tables.episodes.add_missing_columns(ProducerCatalog(producers).declared_schema())
            tasks, faults = LoadedAnnotators([], {})
        else:
            opened = open_engine(request.engine) if engine is None else engine_or_local(engine)
            with opened as engine:
                tasks, faults = _annotate_in_order(
                    engine, stores, replace(request, names=names), total, report_line
                )
        reports = collect_run_reports(tasks, faults, request.names, total)
        return _add_tripwires(stores, reports)


def estimate(stores: Stores, request: AnnotateRequest) -> list[AnnotateEstimate]:
    """What `annotate` would do with a request, see `estimate_tasks`. Raises the first fault of an annotator.

    No model is loaded and no server is asked.
    """
    from ares_annotators.runner.quote import estimate_tasks

    stores.sync()
    tasks = _load_without_models(stores, request, count_planned_episodes(stores, request))
    return estimate_tasks(stores, tasks, request.selection, stores.settings.price)


def _names_with_work(stores: Stores, request: AnnotateRequest) -> tuple[str, ...]:
    """The annotators that may have something to do: of failed work, those of which some is logged."""
    if not request.retry_failed:
        return tuple(request.names)
    try:
        tasks = _load_without_models(stores, request)
    except PluginError:  # the others may work
        return tuple(request.names)
    logs = {task.plugin: stores.annotations.find_documents(FAILURES, f"{task.name}/") for task in tasks}
    return tuple(name for name, documents in logs.items() if next(documents, None) is not None)


def _load_without_models(
    stores: Stores, request: AnnotateRequest, planned_episodes: int = 0
) -> Sequence[AnnotatorRun]:
    """The annotators as for a quote: no model is loaded, and no cluster joined. Raises as `load_run_annotators`."""
    options = make_factory_options(stores, request, planned_episodes, load_models=False)
    return load_run_annotators(stores, request, options, Budget(None), LocalEngine()).tasks


def _annotate_in_order(
    engine: Engine,
    stores: Stores,
    request: AnnotateRequest,
    total: int,
    report_line: Callable[[str], None],
) -> LoadedAnnotators:
    """Let the annotators work; those that read what others of the run store begin when that is stored."""
    done, budget = LoadedAnnotators([], {}), Budget(request.budget_usd)
    groups = _group_by_order(stores, request, engine)
    for number, group in enumerate(groups):
        try:
            tasks, faults = _annotate_on(engine, stores, group, total, report_line, budget)
        except ModelError as error:
            if later := " ".join(name for other in groups[number + 1 :] for name in other.names):
                # Several have also done what the later ones are about.
                advice = f": `ares annotate {later}` goes without" if len(group.names) == 1 else ""
                says = f"{' '.join(group.names)} did nothing, and {later} was not begun{advice}"
                error.detail = "; ".join(filter(None, (error.detail, says)))
            raise
        engine.close()  # its workers would keep cores and GPUs from those of the next
        budget = budget.renewed()
        done = LoadedAnnotators([*done.tasks, *tasks], {**done.faults, **faults})
    return done


def _group_by_order(stores: Stores, request: AnnotateRequest, engine: Engine) -> list[AnnotateRequest]:
    """The request in up to three parts, in order.

    On a cluster the annotators without a model come first, since models load for minutes. Those that read what others
    of the request store come last.
    """
    faults: dict[str, AresError] = {}
    factories = import_factories(request, faults)
    readers = [
        name
        for name, factory in factories.items()
        if set(getattr(factory, "reads_stored", ())) & (set(request.names) - {name})
    ]
    quick = (
        [] if isinstance(engine, LocalEngine) else [name for name in request.names if name in WITHOUT_MODEL]
    )
    others = [name for name in request.names if name not in (*readers, *quick)]
    groups = [group for group in (quick, others, readers) if group]
    if len(groups) == 1:
        return [request]
    by_annotator = list_options_by_annotator(
        make_factory_options(stores, request, 0, load_models=False), factories
    )
    return [
        replace(
            request,
            names=tuple(group),
            options={name: by_annotator[name].values for name in group if name in by_annotator},
        )
        for group in groups
    ]


def _annotate_on(
    engine: Engine,
    stores: Stores,
    request: AnnotateRequest,
    total: int,
    report_line: Callable[[str], None],
    budget: Budget,
) -> LoadedAnnotators:
    """Load the annotators and let them work; what they have counted, and why others could not."""
    options = make_factory_options(stores, request, total)
    loaded = load_run_annotators(stores, request, options, budget, engine)
    tasks = _prepare_run(stores, loaded, request, report_line)
    decoders = open_decoder_pool(engine, _READERS, len(tasks))
    stream = None if report_line is _print_nothing else sys.stderr
    progress = Progress(f"annotate {' '.join(request.names)}", total, stream)
    incomplete = _incomplete_bundles(stores, tasks, request.selection, progress)
    from ares_annotators.runner.quote import RenewedQuote

    renewed = RenewedQuote(stores, tasks, request.selection, total, report_line)
    bundles = islice(incomplete, request.selection.limit)
    _run_tasks(stores, tasks, bundles, decoders, progress, renewed)
    if _embed_new_texts(stores, tasks, report_line) or any(task.report.kept for task in tasks):
        stores.tables.optimize()
        # These are searched slowly until they are indexed: a separate job, for which no run waits.
        for label, count in stores.tables.unindexed_vectors().items():
            report_line(
                f"{count_are(count, 'vector', label)} compared one by one; `ares index` makes searches fast"
            )
    return LoadedAnnotators(tasks, loaded.faults)


def _prepare_run(
    stores: Stores, loaded: LoadedAnnotators, request: AnnotateRequest, report_line: Callable[[str], None]
) -> list[AnnotatorRun]:
    """Check that the run can go well, and store its producers, before the first annotation; returns who can work.

    A model that does not answer its test call is a fault like one that cannot be loaded. An annotator that has done
    everything before makes no test call.
    """
    producers = [task.annotator.producer for task in loaded.tasks]
    refuse_columns_of_people(stores, producers)
    able: list[AnnotatorRun] = []
    # The last first: a judge refuses a captioner before the test call of that one is paid.
    for task in reversed(loaded.tasks):
        try:
            # A space says where its encoder is: a folder that moved is named again, though nothing is left to do.
            if task.annotator.space or _has_work(stores, task, loaded.tasks, request.selection.condition):
                task.preflight(producers, report_line)
        except ModelError as error:
            loaded.faults[task.plugin] = error
        else:
            able.insert(0, task)
    if loaded.faults and not able:
        raise next(iter(loaded.faults.values()))
    for task in able:
        for producer in (task.annotator.producer, *task.annotator.side_producers):
            stores.annotations.add_producer(producer)
    for task in able:
        task.reset_subjects()
    delete_unrecorded_vectors(stores)
    return able


def _has_work(stores: Stores, task: AnnotatorRun, tasks: Sequence[AnnotatorRun], where: str) -> bool:
    """Whether an annotator has a subject that it has not done, or gets some by this run."""
    producer = task.annotator.producer
    # Which segments are shown is decided when all producers of the run are stored.
    if producer.subject_kind == "segment" or any(other.name in task.after for other in tasks):
        return True
    for ids in stores.tables.episodes.id_batches(where):
        episodes = stores.tables.episodes.get(ids) if task.after else []
        annotations = read_annotations(stores, episodes, task.subject_finder.read_names)
        subject_ids = list_subject_ids(task, ids, episodes, annotations)
        subjects = {subject for members in subject_ids.values() for subject in members}
        if len(stores.annotations.find_done_subjects(producer.maker_id, list(subjects))) < len(subjects):
            return True
    return False


def _add_tripwires(stores: Stores, reports: Sequence[AnnotateReport]) -> tuple[AnnotateReport, ...]:
    """The reports with what the controls of judges say."""
    tripwires = read_tripwires(stores.annotations)
    return tuple(replace(report, judge_tripwire=tripwires.get(report.producer, {})) for report in reports)


def _embed_new_texts(stores: Stores, tasks: Sequence[AnnotatorRun], report: Callable[[str], None]) -> int:
    """Give texts without a vector one, so that they can be searched by meaning; returns the number of new vectors.

    Done for the spaces of the annotators of this run and, as it may have written texts, for spaces that have text
    vectors already.
    """
    run_spaces, text_spaces = {task.annotator.space for task in tasks}, set(stores.tables.text_spaces())
    has_results, new_vectors = any(task.report.kept for task in tasks), 0
    for name, space in list_embedding_spaces(stores).items():
        if name in run_spaces or (has_results and name in text_spaces):
            try:
                new_vectors += embed_texts(stores, space)
            except ModelError as error:
                report(f"new texts cannot be found by meaning in {name}: {error}")
    return new_vectors


def _print_nothing(message: str) -> None:
    pass


def _run_tasks(
    stores: Stores,
    tasks: Sequence[AnnotatorRun],
    bundles: Iterator[EpisodeBundle],
    decoders: WorkerPool[Frames, Frames],
    progress: Progress,
    renewed: RenewedQuote,
) -> None:
    writer = AnnotationWriter(stores, tasks)
    needs_signals = any(task.annotator.needs_signals for task in tasks)
    readers = [task for task in tasks if task.annotator.select_frames is not select_no_frames]
    for task in readers[-1:]:
        task.is_last_reader = True
    read_stage: PipelineStage[EpisodeBundle] = PipelineStage(
        "read",
        lambda batch: _read_signals_and_frames(
            stores, tasks, batch, needs_signals, decoders if readers else None
        ),
        batch_size=_READ_BATCH_SIZE if readers else _SIGNAL_BATCH_SIZE,
        workers=decoders.most_workers,
        active_limit=make_concurrency_getter(decoders),
    )

    def sink(batch: list[EpisodeBundle]) -> None:
        progress.advance(len(batch))
        writer.add(batch)
        if renewed.advance(len(batch)):
            writer.flush()
            renewed.say()

    try:
        run_pipeline(
            bundles,
            [read_stage, *_annotator_stages(tasks, decoders)],
            sink,
            on_done=lambda: _finish_tasks(tasks),
            on_end=lambda: _stop_tasks(tasks),
        )
    finally:
        writer.flush()
        progress.close()
        stores.sync()
    writer.close()


def _finish_tasks(tasks: Sequence[AnnotatorRun]) -> None:
    for task in tasks:
        task.finish()


def _stop_tasks(tasks: Sequence[AnnotatorRun]) -> None:
    for task in tasks:
        task.stop()


def _read_signals_and_frames(
    stores: Stores,
    tasks: Sequence[AnnotatorRun],
    batch: list[EpisodeBundle],
    needs_signals: bool,
    decoders: WorkerPool[Frames, Frames] | None,
) -> None:
    if not any(task.is_working for task in tasks):
        return
    if needs_signals:
        trajectories = read_signals(stores, [bundle.episode.episode_id for bundle in batch])
        for bundle in batch:
            bundle.trajectory = trajectories.get(bundle.episode.episode_id)
    if decoders:
        decoded = decoders.map([bundle.frames for bundle in batch])
        for bundle, frames in zip(batch, decoded, strict=True):
            bundle.frames = (
                make_failing_frames(bundle.frames, frames) if isinstance(frames, AresError) else frames
            )


def _incomplete_bundles(
    stores: Stores, tasks: Sequence[AnnotatorRun], selection: EpisodeSelection, progress: Progress
) -> Iterator[EpisodeBundle]:
    """Episodes that at least one annotator has to work on; complete ones are counted and skipped."""
    described = sorted({name for task in tasks for name in task.subject_finder.read_names})
    episodes = stores.tables.episodes.read(selection.condition)
    while batch := list(islice(episodes, _PLAN_BATCH_SIZE)):
        annotations = read_annotations(stores, batch, described)
        bundles = [
            EpisodeBundle(episode, Frames(episode, ()), annotations=annotations.get(episode.episode_id, ()))
            for episode in batch
        ]
        for task in tasks:
            task.load_done_subjects(bundles)
        stamps = read_stamps(stores, batch)
        for bundle in bundles:
            bundle.stamps = stamps.get(bundle.episode.episode_id)
            bundle.frames = Frames(bundle.episode, _early_requests(bundle, tasks), bundle.stamps)
            if any(
                task.has_missing_subjects(bundle) or _gets_new_subjects(task, tasks, bundle) for task in tasks
            ):
                yield bundle
                continue
            for task in tasks:
                task.add_existing(bundle)
            if selection.limit is None:  # else the total is of the others
                progress.advance()


def _gets_new_subjects(task: AnnotatorRun, tasks: Sequence[AnnotatorRun], bundle: EpisodeBundle) -> bool:
    """Whether this run makes subjects of an annotator in an episode."""
    return any(other.name in task.after and other.has_missing_subjects(bundle) for other in tasks)


def _early_requests(bundle: EpisodeBundle, tasks: Sequence[AnnotatorRun]) -> list[CameraSeconds]:
    """Frames that are known to be needed before any annotator has worked."""
    requests = []
    for task in tasks:
        subjects = task.missing_subjects(bundle)
        if task.annotator.producer.subject_kind == "annotation" and _gets_new_subjects(task, tasks, bundle):
            # As a rule what an annotator says of an episode spans it.
            subjects = [*subjects, make_episode_subject(bundle.episode)]
        requests += [task.select_frames(bundle, subject) for subject in subjects]
    return requests


def _annotator_stages(
    tasks: Sequence[AnnotatorRun], decoders: WorkerPool[Frames, Frames]
) -> list[PipelineStage[EpisodeBundle]]:
    """The annotators in their order, each after the decoding of frames that only then are known to be needed."""
    stages = []
    for task in tasks:
        if task.after and task.annotator.select_frames is not select_no_frames:
            late = partial(_decode_late, task=task, decoders=decoders)
            stages.append(PipelineStage(f"read {task.name}", late, batch_size=_READ_BATCH_SIZE))
        stages.append(task.pipeline_stage())
    return stages


def _decode_late(
    batch: list[EpisodeBundle], task: AnnotatorRun, decoders: WorkerPool[Frames, Frames]
) -> None:
    """Decode the frames of subjects that this run has made."""
    late = [
        (bundle, Frames(bundle.episode, [_missing_frames(bundle, task)], bundle.stamps)) for bundle in batch
    ]
    waiting = [(bundle, frames) for bundle, frames in late if frames.requested]
    decoded = decoders.map([frames for _, frames in waiting]) if waiting else ()
    for (bundle, frames), result in zip(waiting, decoded, strict=True):
        later = make_failing_frames(frames, result) if isinstance(result, AresError) else result
        bundle.frames = LayeredFrames(bundle.frames, later)


def _missing_frames(bundle: EpisodeBundle, task: AnnotatorRun) -> CameraSeconds:
    requests = [task.select_frames(bundle, subject) for subject in task.missing_subjects(bundle)]
    return bundle.frames.missing(merge_frame_requests(requests))
