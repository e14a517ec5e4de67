"""What goes over many episodes of a workspace: an export, a dataset for PyTorch, an index, a check of the stores."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from ares.curation import CurationSet, Sets
from ares.errors import RequestError
from ares.io import expanded_path, local_output
from ares.registry import explain_mistakes
from ares.workspace.arguments import ExportOptions

if TYPE_CHECKING:
    from ares.export import ExportReport, MergePlan
    from ares.loader import Normalisation, StepDataset
    from ares.store import Stores
    from ares.workspace.episode import FindingList
    from ares.workspace.episodes import Episodes
    from ares.workspace.status import TableStatus


def _read_plan(options: dict[str, Any]) -> MergePlan:
    """The plan that some options of an export name."""
    from ares.export import read_merge_plan

    return read_merge_plan(Path(expanded_path(options["plan"])))


def _list_view(view: Episodes) -> CurationSet:
    """The episodes of a view as a selection that is not stored. Raises RequestError for none."""
    ids = tuple(sorted(view.ids()))
    if not ids:
        raise RequestError("the view has no episodes", "choose some with where() or with_ids()")
    digest = hashlib.sha256("\n".join(ids).encode()).hexdigest()[:16]
    return CurationSet(
        name="view", version=0, created="", recipe={}, episodes=len(ids), ids_hash=digest, listed=ids
    )


@explain_mistakes
class WorkspaceJobs:
    """What goes over many episodes of a workspace.

    Args:
        stores: Stores of the workspace.
    """

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def export(
        self,
        selection: str | CurationSet,
        dest: str | os.PathLike[str],
        *,
        format: str = "lerobot",
        quiet: bool = False,
        **options: Unpack[ExportOptions],
    ) -> ExportReport:
        """Write a set as a training dataset, as `ares export` does.

            >>> ws.export("sinks", "exports/sinks", format="lerobot").episodes
            >>> ws.export("sinks", "exports/moving", trim=TrimRequest(idle_seconds=0.5), weights=["episode_value"])

        Args:
            selection: Name of a set, "name@version", or a set.
            dest: Folder to write; it must not be there yet, or be empty.
            format: "lerobot", "lerobot-v2.1", "rlds", "parquet", or the name of another exporter.
            task: Task of every episode: its "instruction", or its "caption" where that is acceptable.
            fps: Steps per second to write; None for the rate of each episode.
            retime: Step for a second: the "nearest", or the last at or before it ("hold").
            convert: Conversions of signals, such as ["action.gripper=open1", "state.arm=rad"].
            strict: Write nothing when an episode fails, instead of leaving it out.
            segments: Grades of texts of models that are written too, such as ["ungraded"]; ["none"] writes no texts.
            plan: File of the plan by which the sources become one dataset, see `write_merge_plan`.
            trim: Which parts of the episodes are written, an `ares.export.TrimRequest`; None writes them whole.
            weights: Factors of the weight of each step, such as ["success_probability", "0.2 where NOT acceptable",
                "0 over verb = 'wait'", "weights.csv"].
            progress: Signal of the sources that is the progress of each step, for rabc of lerobot.
            quiet: Show no progress.

        Raises:
            RequestError: There is no such set or format, the plan has open questions, the folder is not empty, or
                the rate is not positive.
            ClashError: Signals of the set mean different things, and no conversion is named for them.
            MediaError: No episode can be exported, or with `strict` one cannot.
        """
        from ares.export import ExportRequest, export_set
        from ares.jobs import Progress

        values: dict[str, Any] = dict(options)
        if values.get("plan") is not None:
            values["plan"] = _read_plan(values)
        request = ExportRequest(
            set=self._set(selection),
            destination=local_output(dest),
            format=format,
            **values,
        )
        label, stream = f"export {request.set.name}", None if quiet else sys.stderr
        with closing(Progress(label, request.set.num_spans or request.set.episodes, stream)) as progress:
            return export_set(request, self._stores, progress.advance)

    def write_merge_plan(self, selection: str | CurationSet, path: str | os.PathLike[str]) -> MergePlan:
        """Propose how the sources of a set become one dataset, as `ares export --write-plan` does.

            >>> plan = ws.write_merge_plan("mixed", "plan.yaml")
            >>> [entry.text for entry in plan.confirm]

        Args:
            selection: Name of a set, "name@version", or a set.
            path: A new YAML file, for a person to edit; `export` obeys it.

        Raises:
            RequestError: There is no such set, it has no episodes, or the file exists.
        """
        from ares.export import propose_merge_plan

        plan = propose_merge_plan(self._stores, self._set(selection))
        plan.write(local_output(path))
        return plan

    def torch_dataset(
        self,
        selection: str | CurationSet | Episodes,
        *,
        cameras: Sequence[str] | None = None,
        delta_seconds: Mapping[str, Sequence[float]] | None = None,
        normalise: Mapping[str, Normalisation] | None = None,
        **options: Unpack[ExportOptions],
    ) -> StepDataset:
        """The steps of a set as a dataset that `torch.utils.data.DataLoader` takes; frames are decoded on demand.

            >>> dataset = ws.torch_dataset("sinks", delta_seconds={"action": [0.0, 0.05, 0.1]})
            >>> dataset[0]["action"].shape, dataset[0]["action_is_pad"]
            >>> stream = dataset.stream(batch_size=8)

        Args:
            selection: Name of a set, "name@version", a set, or a view such as `ws.episodes.where(...)`; its episodes
                have one layout.
            cameras: Cameras whose frames are decoded; None for all.
            delta_seconds: By key of an item, the times of a window relative to the step.
            normalise: By key of a signal how it is normalised, by statistics over all steps: "mean_std" to mean 0 and
                deviation 1, "min_max" to the span from -1 to 1.
            task: Task of every episode, as for `export`; so are the next four.
            fps: Steps per second; None for the rate of the episodes.
            retime: Step for a second: the "nearest", or the last at or before it ("hold").
            convert: Conversions of signals.
            strict: Fail when an episode cannot be read, instead of leaving it out.
            plan: File of the plan by which the sources become one dataset.
            trim: Which parts of the episodes it has, as for `export`.
            weights: Factors of the weight of each step, as for `export`: an item has the key "sample_weight", and
                `StepDataset.make_weighted_sampler` draws by it.

        Raises:
            RequestError: There is no such set, camera or key, its episodes have several layouts, or torch is not
                installed.
            ClashError: Signals of the set mean different things, and no conversion is named for them.
            MediaError: No episode can be read, or with `strict` one cannot.
        """
        from ares.export import ExportRequest
        from ares.loader import LoaderRequest, build_step_dataset
        from ares.workspace.episodes import Episodes

        values: dict[str, Any] = dict(options)
        if values.get("plan") is not None:
            values["plan"] = _read_plan(values)
        members = _list_view(selection) if isinstance(selection, Episodes) else self._set(selection)
        request = ExportRequest(set=members, destination=Path(), format="steps", **values)
        loading = LoaderRequest(cameras=cameras, delta_seconds=delta_seconds or {}, normalise=normalise or {})
        return build_step_dataset(request, self._stores, loading)

    def index(self, quiet: bool = False) -> dict[str, TableStatus]:
        """Index vectors so that searches for similar frames, texts and motions stay fast, as `ares index` does.

        Searches go on meanwhile, and find what is not indexed yet by comparing it one by one.

            >>> ws.annotate("motion", "embed")
            >>> ws.index()["vectors/motion"].indexed

        Args:
            quiet: Say nothing of what is indexed.

        Returns:
            The tables of vectors by name, with their rows, indexed rows and measured recall.
        """
        from ares.console import print_message
        from ares.workspace.summary import vector_tables

        with self._stores.write_lock("ares index"):
            self._stores.tables.refresh_indexes((lambda message: None) if quiet else print_message)
        return vector_tables(self._stores)

    def doctor(
        self,
        repair: bool = False,
        rebuild: bool = False,
        relocate: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    ) -> FindingList:
        """Check that the stores agree with each other and with the source files, as `ares doctor` does.

            >>> ws.doctor(relocate={"/old/data": "/new/data"})

        Args:
            repair: Repair what can be repaired without losing data.
            rebuild: Drop the columns and segments that come from the annotation log, and make them from it again.
            relocate: New folder or URL by the old one, for source files that were moved.

        Raises:
            RequestError: A new path does not exist.
            StoreError: The log has values that no column can show; all others are shown by then.
        """
        from ares.doctor import relocate_sources, run_checks
        from ares.workspace.episode import FindingList

        moves = list(relocate.items() if isinstance(relocate, Mapping) else relocate)
        findings = relocate_sources(self._stores, moves) if moves else []
        return FindingList(findings + run_checks(self._stores, repair, rebuild))

    def _set(self, selection: str | CurationSet) -> CurationSet:
        return Sets(self._stores.annotations)[selection] if isinstance(selection, str) else selection
