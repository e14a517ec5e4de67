"""What every installed annotator promises, ours and guests': one producer, one answer per subject, no work twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from pydantic.fields import FieldInfo

from ares.annotation import Cost
from ares.episode import Json
from ares.registry import annotators
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from ares_annotators.base import Options
from ares_annotators.options import options_model
from ares_annotators.runner.fault_isolation import check_annotator
from ares_app.demo.run import GRADE_OPTIONS
from ares_ingest.base import SourceOptions
from tests.annotators.runs import annotate
from tests.ingesting import ingest_paths

pytestmark = [
    pytest.mark.filterwarnings("ignore:Tensorflow not installed:ImportWarning"),
    pytest.mark.filterwarnings("ignore:n_jobs value:UserWarning"),
]

# Vectors that an annotator needs before it can be made; what it describes, its producer says.
VECTORS_OF = {"map": ("embed",)}
# What an annotator needs to be made: the judge of the reference models has its own rubric and list.
NEEDED_VALUES = {"grade": GRADE_OPTIONS}
# A second value of an option, where its field has no `examples`.
OTHER_VALUES: dict[str, Json] = {
    "layout": "tiles",
    "camera": "wrist",
    "rubric": "other-rubric.yaml",
    "candidates": "other-candidates.txt",
}


@pytest.fixture(scope="module")
def workspace(
    tmp_path_factory: pytest.TempPathFactory, demo_samples: Path, reference_settings: Settings
) -> Iterator[Workspace]:
    """Six episodes of RLDS and six of video: a map needs ten."""
    opened = open_workspace(str(tmp_path_factory.mktemp("annotators") / "workspace"), reference_settings)
    ingest_paths(
        opened.stores, [str(demo_samples / "rlds")], SourceOptions(rate_hz=10.0), limit=6, quiet=True
    )
    ingest_paths(opened.stores, [str(demo_samples / "video")], limit=6, quiet=True)
    yield opened
    opened.close()


# The reply of a stub that judges success.
VOTE = '{"observation": "a drawer", "conditions": ["met"], "frames": [1], "outcome": "success"}'


@pytest.fixture(scope="module", autouse=True)
def _criteria_of_tasks() -> Iterator[None]:
    """A stub has one reply, which is the vote."""
    with pytest.MonkeyPatch.context() as patched:
        criteria = "ares_annotators.success.task_criteria.TaskCriteria.read"
        patched.setattr(criteria, lambda *_: (["the task is done"], Cost()))
        yield


@pytest.fixture(scope="module", autouse=True)
def _map_by_pca() -> Iterator[None]:
    """UMAP compiles itself for ten seconds; tests/annotators/test_embedding_map.py draws maps with it."""

    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("ares_annotators.embedding_map.version", missing)
        yield


# Those that need a model, others before them, or a map.
SLOW = ("caption", "embed", "grade", "map", "segment", "success")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in annotators.names()
    ],
)
def chosen_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def options(chosen_name: str, reference_settings: Settings) -> Options:
    values = NEEDED_VALUES.get(chosen_name, {})
    model = f"stub:{VOTE}" if chosen_name == "success" else ""
    return Options(settings=reference_settings, device="cpu", values=values, model=model)


@pytest.fixture(scope="module")
def name(chosen_name: str, workspace: Workspace, options: Options) -> str:
    """An annotator, after those whose output it needs."""
    run_before(chosen_name, options, workspace)
    return chosen_name


def run_before(name: str, options: Options, workspace: Workspace) -> None:
    """Run the annotators whose vectors, annotations or segments an annotator needs."""
    without_values = replace(options, values={})
    for source in VECTORS_OF.get(name, ()):
        annotate(workspace.stores, [source], without_values, quiet=True)
    for source in annotators.get(name)(options, workspace.stores).producer.after:
        run_before(source, without_values, workspace)
        annotate(workspace.stores, [source], without_values, quiet=True)


def test_the_same_options_make_the_same_producer(name: str, options: Options, workspace: Workspace) -> None:
    first, second = (annotators.get(name)(options, workspace.stores) for _ in range(2))
    assert check_annotator(name, first).producer == first.producer
    assert first.producer.maker_id == second.producer.maker_id
    assert first.producer.annotator == name


def test_options_and_columns_have_descriptions(name: str, options: Options, workspace: Workspace) -> None:
    fields = options_model(annotators.get(name)).model_fields
    assert not [field for field, info in fields.items() if info.is_required() or not info.description]
    producer = annotators.get(name)(options, workspace.stores).producer
    assert all(column.name.isidentifier() and column.meaning for column in producer.columns)


def test_every_option_that_can_change_a_value_is_part_of_the_producer(
    name: str, options: Options, workspace: Workspace, in_folder_of_rubric: None
) -> None:
    factory = annotators.get(name)
    model, usual = options_model(factory), factory(options, workspace.stores).producer
    assert not model.not_in_producer - model.model_fields.keys()
    for field in model.model_fields.keys() - model.not_in_producer:
        assert field in usual.settings
        for value in other_values(field, model.model_fields[field]):
            values = {**options.values, field: value}
            changed = factory(replace(options, values=values), workspace.stores).producer
            assert changed.maker_id != usual.maker_id, f"{field} = {value!r} makes the same producer"


@pytest.fixture
def in_folder_of_rubric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder holds the shipped rubric with one category changed, and another list of phrases."""
    import yaml

    from ares_annotators.grade import load_rubric

    document = load_rubric("simulation").model_dump(mode="json")
    document["criteria"][0]["category"] = "important"
    (tmp_path / "other-candidates.txt").write_text("open the drawer\nclose the drawer\n")
    (tmp_path / "other-rubric.yaml").write_text(yaml.safe_dump(document))
    monkeypatch.chdir(tmp_path)


def other_values(field: str, info: FieldInfo) -> list[Json]:
    """Values of an option other than its default, as far as they are known."""
    candidates = [*(info.examples or ()), *([OTHER_VALUES[field]] if field in OTHER_VALUES else [])]
    return [value for value in candidates if value != info.default]


def test_every_episode_is_counted_once_and_no_work_is_done_twice(
    name: str, options: Options, workspace: Workspace
) -> None:
    (first,) = annotate(workspace.stores, [name], options, quiet=True)
    (second,) = annotate(workspace.stores, [name], options, quiet=True)
    assert first.planned == first.kept + first.already + first.failed > 0
    assert second.kept == 0 and second.already == first.kept + first.already


def test_an_annotation_says_what_made_it(name: str, options: Options, workspace: Workspace) -> None:
    annotate(workspace.stores, [name], options, quiet=True)
    ids = sorted(workspace.stores.tables.episodes.ids())
    annotations = list(workspace.stores.annotations.find_annotations(ids, [name]))
    producers = workspace.stores.annotations.producers()
    assert annotations
    for annotation in annotations:
        assert producers[annotation.maker_id].annotator == name
        assert 0 <= annotation.start_seconds < annotation.stop_seconds
        assert annotation.created.endswith("+00:00")
