"""Every kind of RLDS feature is read, or left out with a warning: no key disappears."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ares.errors import SourceError
from ares.media import frames_at
from ares_ingest.base import SourceOptions
from ares_ingest.rlds import rlds
from ares_ingest.rlds.features import read_features
from tests.ingest.conftest import MakeRlds
from tests.ingest.rlds.conftest import load_first_record, open_source, tfds_features, tfds_steps

OBS = "steps/observation/"
PLAIN = {
    "steps/action": "float32 7",
    "steps/is_last": "bool",
    "steps/language_instruction": "text",
    OBS + "image": "png 8 12 3",
    OBS + "state": "float32 5",
}


def test_the_features_json_of_before_2022_is_the_same_tree(make_rlds: MakeRlds) -> None:
    leaves = PLAIN | {
        OBS + "words": "texts",
        OBS + "open": "float32 -1 3",
        "episode_metadata/success": "bool",
    }
    current, old = make_rlds("now", leaves), make_rlds("was", leaves, old_form=True)
    assert '"content"' in (old.path / "features.json").read_text()
    assert read_features(old.path / "features.json") == read_features(current.path / "features.json")
    assert str(tfds_features(old.path)) == str(tfds_features(current.path))
    record = load_first_record(old.path, dataset="now")
    assert record.trajectory.state is not None
    assert np.array_equal(record.trajectory.state.values, old.values[OBS + "state"])
    assert np.array_equal(frames_at(record.episode.cameras[0].media, [0.0])[0], old.values[OBS + "image"][0])


def test_a_features_json_whose_content_is_text(make_rlds: MakeRlds) -> None:
    dataset = make_rlds("a", PLAIN)
    path = dataset.path / "features.json"
    before, root = read_features(path), json.loads(path.read_text())
    content = json.dumps(root["featuresDict"])
    proto = {
        "type": root["pythonClassName"],
        "content": content,
        "proto_cls": "tensorflow_datasets.FeaturesDict",
    }
    path.write_text(json.dumps(proto))
    assert read_features(path) == before
    assert set(tfds_features(dataset.path)) == {"steps"}


def test_pictures_without_a_codec_and_depth_are_named_and_left_out(make_rlds: MakeRlds) -> None:
    more = {
        OBS + "raw": "uint8 24 32 3",
        OBS + "small_raw": "uint8 8 8 3 bytes",
        OBS + "depth": "float32 24 32",
        OBS + "wrist_depth": "png 24 32 1",
        OBS + "cloud": "float32 100 3",
        OBS + "language_vector_embedding": "float32 64",
    }
    dataset = make_rlds("a", PLAIN | more)
    source = open_source(dataset.path)
    raw, depth = (
        "an image stored as raw numbers, not as JPEG or PNG",
        "depth or another image that is not in colour",
    )
    reasons = {
        "raw": raw,
        "small_raw": raw,
        "depth": "depth",
        "wrist_depth": depth,
        "cloud": "too wide for a signal",
        "language_vector_embedding": "an embedding",
    }
    for name, reason in reasons.items():
        assert f"{OBS}{name} is not stored ({reason})" in source.warnings
    record = next(source.items).load()
    assert [camera.name for camera in record.episode.cameras] == ["image"]
    assert set(record.trajectory.extra) == {"is_last"} and record.warnings == ()


def test_sequences_in_steps(make_rlds: MakeRlds) -> None:
    more = {
        OBS + "instructions": "texts",
        OBS + "contacts": "ragged float32 3",
        OBS + "points": "float32 -1 2",
    }
    contacts = [[np.zeros(3, np.float32)], [], [np.ones(3, np.float32)] * 2, []]
    dataset = make_rlds("a", PLAIN | more, changed={OBS + "contacts": contacts})
    source = open_source(dataset.path)
    assert f"{OBS}points is not stored (its size is open)" in source.warnings
    record = next(source.items).load()
    assert set(record.episode.instructions) == {"open the drawer", "open it"}
    assert record.warnings == (f"{OBS}contacts is not stored (its length differs from step to step)",)


def test_sequences_of_one_length_are_signals_as_tensorflow_datasets_reads_them(make_rlds: MakeRlds) -> None:
    chance = np.random.default_rng(4)
    forces = [list(chance.random((2, 3)).astype(np.float32)) for _ in range(4)]
    dataset = make_rlds("a", PLAIN | {OBS + "forces": "ragged float32 3"}, changed={OBS + "forces": forces})
    record = load_first_record(dataset.path)
    assert record.warnings == ()
    steps = tfds_steps(dataset.path, record)
    expected = np.stack([np.asarray(step["observation"]["forces"]).reshape(-1) for step in steps])
    np.testing.assert_array_equal(record.trajectory.extra["forces"].values, expected)
    np.testing.assert_array_equal(expected, np.array(forces).reshape(4, 6))


def test_a_video_beside_the_steps_is_a_camera_and_optional_features_are_read(make_rlds: MakeRlds) -> None:
    frames = np.random.default_rng(0).integers(0, 255, (4, 8, 12, 3), np.uint8)
    dataset = make_rlds(
        "b", PLAIN | {"clip": "png 8 12 3", OBS + "force": "float32 2"}, changed={"clip": frames}
    )
    path = dataset.path / "features.json"
    tree = json.loads(path.read_text())
    root = tree["featuresDict"]["features"]
    shape = {"dimensions": ["-1", "8", "12", "3"]}
    root["clip"] = {
        "pythonClassName": "tensorflow_datasets.core.features.video_feature.Video",
        "video": {"shape": shape, "dtype": "uint8", "encodingFormat": "png"},
    }
    observation = root["steps"]["sequence"]["feature"]["featuresDict"]["features"]["observation"]
    inside = observation["featuresDict"]["features"]
    inside["force"] = {
        "pythonClassName": "tensorflow_datasets.core.features.feature.Optional",
        "optional": {"feature": inside["force"]},
    }
    path.write_text(json.dumps(tree))
    record = load_first_record(dataset.path)
    assert [camera.name for camera in record.episode.cameras] == ["clip", "image"]
    media = record.episode.cameras[0].media
    np.testing.assert_array_equal(frames_at(media, [k / media.rate_hz for k in range(4)]), frames)
    np.testing.assert_array_equal(record.trajectory.extra["force"].values, dataset.values[OBS + "force"])


def test_packed_numbers_are_unpacked_and_broken_ones_told(make_rlds: MakeRlds) -> None:
    more = {OBS + "packed": "float64 2 zlib", OBS + "plain": "int16 3 bytes"}
    dataset = make_rlds("a", PLAIN | more)
    extra = load_first_record(dataset.path).trajectory.extra
    assert np.array_equal(extra["packed"].values, dataset.values[OBS + "packed"].astype(np.float32))
    assert np.array_equal(extra["plain"].values, dataset.values[OBS + "plain"])
    broken = make_rlds("b", PLAIN | {OBS + "packed": "float64 2 bytes"})
    features = broken.path / "features.json"
    features.write_text(features.read_text().replace('"bytes"', '"zlib"'))
    record = load_first_record(broken.path)
    assert f"{OBS}packed is not as long as the other steps" in record.warnings
    assert "packed" not in record.trajectory.extra


def test_integers_that_float32_rounds_are_told(make_rlds: MakeRlds) -> None:
    more = {OBS + "stamp": "int64", OBS + "small": "int64"}
    stamps = np.array([2**24, 2**24 + 1, 2**40 + 1, 5])
    dataset = make_rlds(
        "a", PLAIN | more, changed={OBS + "stamp": stamps, OBS + "small": [0, 2**24, 2**25, -7]}
    )
    record = load_first_record(dataset.path)
    assert record.warnings == (f"{OBS}stamp holds integers that float32 rounds",)
    assert record.trajectory.extra["small"].values[:, 0].tolist() == [0, 2**24, 2**25, -7]


def test_keys_that_nobody_understands_are_listed_without_a_spec(make_rlds: MakeRlds, tmp_path: Path) -> None:
    dataset = make_rlds("a", PLAIN | {OBS + "foo": "float32 2", "steps/mode": "int64"})
    unknown = [warning for warning in open_source(dataset.path).warnings if "unknown meaning" in warning]
    assert unknown == [
        f"{key} is stored as a signal of unknown meaning (see --show-spec)"
        for key in ("steps/mode", OBS + "foo")
    ]
    spec = tmp_path / "spec.yaml"
    spec.write_text("rate_hz: 4\nreference: me\nstate: [{key: steps/observation/foo, names: [a, b]}]\n")
    source = open_source(dataset.path, spec=str(spec))
    assert not any("unknown" in warning for warning in source.warnings)
    record = next(source.items).load()
    assert record.episode.state_names == ("a", "b") and record.episode.rate_hz == 4.0
    assert set(record.trajectory.extra) == {"is_last", "state", "mode"}


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("state: [{key: steps/observation/stat, names: [a]}]", "steps/observation/stat does not exist"),
        ("state: [{key: steps/observation/state, start: 4, stop: 6, names: [a]}]", "has 5 numbers"),
        ("state: [{key: steps/observation/state, names: [a, b]}]", "has 5 numbers, 2 are named"),
        (
            "state: [{key: steps/observation/state, stop: 1, names: [a]}, "
            "{key: steps/observation/state, start: 1, stop: 2, names: [a]}]",
            "two numbers are named a",
        ),
        ("language: [steps/text]", "language names 'steps/text': it does not exist"),
        ("success: won", "success names 'won': it does not exist"),
        ("reward: steps/action", "reward names 'steps/action': it is not one number per step"),
        ("timestamps: steps/when", "timestamps names 'steps/when': it does not exist"),
        ("episode_ends: steps/is_last", "each record of RLDS is an episode"),
        ("left_out: [steps/actoin]", "did you mean 'steps/action'?"),
        ("cameras: {front: {key: imag}}", "cameras names 'imag': no image of the steps has this name"),
        ("cameras: {imag: front}", "it holds steps/action (T x 7 float32)"),
    ],
)
def test_a_spec_of_the_user_that_does_not_fit_is_refused_in_one_line(
    make_rlds: MakeRlds, tmp_path: Path, line: str, fault: str
) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(f"reference: me\n{line}\n")
    path = make_rlds("a", PLAIN).path
    with pytest.raises(SourceError) as caught:
        open_source(path, spec=str(spec))
    text = str(caught.value)
    assert fault in text and "it holds steps/action" in text and "\n" not in text, text


def test_every_field_of_a_spec_is_read(make_rlds: MakeRlds, tmp_path: Path) -> None:
    more = {OBS + "when": "int64", OBS + "score": "float32", OBS + "debug": "float32 3", "won": "bool"}
    stamps = [1_700_000_000_000_000_000 + n for n in (0, 100_000_000, 250_000_000, 300_000_001)]
    dataset = make_rlds("a", PLAIN | more, changed={OBS + "when": stamps, "won": [True]})
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        "reference: me\nrobot: our arm\ntimestamps: steps/observation/when\ntime_unit: ns\n"
        "state: [{key: steps/action, names: [command]}]\n"
        "action: [{key: steps/observation/state, names: [q], unit: rad}]\n"
        "reward: steps/observation/score\nleft_out: [steps/observation/debug]\n"
        "cameras: {eye: {key: steps/observation/image, role: wrist, channels: bgr}}\n"
        "language: [{text: lift it}, {path: '{text}-train.tfrecord-*'}]\nsuccess: won\n"
    )
    plain, record = load_first_record(dataset.path), load_first_record(dataset.path, spec=str(spec))
    trajectory, episode = record.trajectory, record.episode
    assert trajectory.state is not None and trajectory.action is not None
    assert np.array_equal(trajectory.state.values, dataset.values["steps/action"])
    assert np.array_equal(trajectory.action.values, dataset.values[OBS + "state"])
    assert trajectory.reward is not None
    assert np.array_equal(trajectory.reward, dataset.values[OBS + "score"].ravel())
    assert set(trajectory.extra) == {"is_last"}
    assert trajectory.timestamps.tolist() == pytest.approx([0, 0.1, 0.25, 0.300000001], abs=1e-9)
    assert (episode.rate_source, record.has_stamps) == ("measured", True)
    assert (episode.robot, episode.success, episode.success_source) == ("our arm", True, "won")
    assert episode.instructions == ("lift it", "a", *plain.episode.instructions)
    (camera,) = episode.cameras
    assert (camera.name, camera.role, camera.media.channels) == ("eye", "wrist", "bgr")
    seconds = [0.0]
    frames = frames_at(camera.media, seconds), frames_at(plain.episode.cameras[0].media, seconds)
    assert np.array_equal(frames[0], frames[1][..., ::-1])


def test_a_spec_that_is_shown_names_what_is_left_out_and_can_be_edited(
    make_rlds: MakeRlds, tmp_path: Path
) -> None:
    """That it reads the same is in test_every_format.py."""
    dataset = make_rlds("a", PLAIN | {OBS + "foo": "float32 2", OBS + "depth": "float32 24 32"})
    spec_yaml = rlds.show_spec(str(dataset.path), SourceOptions())
    assert "# rate_hz: 10  # assumed" in spec_yaml and "state_0, state_1" in spec_yaml
    assert f"# {OBS}depth is not stored (depth)" in spec_yaml and f"# {OBS}foo is stored" in spec_yaml
    spec = tmp_path / "spec.yaml"
    spec.write_text(spec_yaml.replace("state_0", "x") + "rate_hz: 20\n")
    edited = load_first_record(dataset.path, spec=str(spec)).episode
    assert edited.state_names[0] == "x" and (edited.rate_hz, edited.rate_source) == (20.0, "spec")


def test_a_known_spec_is_shown_with_its_units(make_rlds: MakeRlds) -> None:
    dataset = make_rlds(
        "toto", {"steps/action": "float32 7", OBS + "state": "float32 7", OBS + "image": "png 8 8 3"}
    )
    spec_yaml = rlds.show_spec(str(dataset.path), SourceOptions())
    assert (
        "{key: steps/observation/state, names: [joint], unit: rad}" in spec_yaml
        and "rate_hz: 30" in spec_yaml
    )
    assert "# the spec's action does not fit" in spec_yaml and "names: [action_0" in spec_yaml


def test_specs_where_they_make_no_sense_are_refused(make_rlds: MakeRlds, tmp_path: Path) -> None:
    dataset = make_rlds("a", PLAIN)
    make_rlds("b", PLAIN)
    spec = tmp_path / "spec.yaml"
    spec.write_text("reference: me\n")
    with pytest.raises(SourceError, match="one spec for several datasets"):
        rlds.open(str(tmp_path), SourceOptions(spec=str(spec)))
    with pytest.raises(SourceError, match="dataset spec cannot be read"):
        open_source(dataset.path, spec=str(tmp_path / "nowhere.yaml"))


def test_a_class_that_is_not_known_is_left_out_and_named(make_rlds: MakeRlds) -> None:
    dataset = make_rlds("a", {**PLAIN, OBS + "sound": "float32 2"})
    tree = json.loads((dataset.path / "features.json").read_text())
    steps = tree["featuresDict"]["features"]["steps"]["sequence"]["feature"]["featuresDict"]["features"]
    inside = steps["observation"]["featuresDict"]["features"]
    inside["sound"] = {
        "pythonClassName": "tensorflow_datasets.core.features.audio_feature.Audio",
        "audio": {},
    }
    (dataset.path / "features.json").write_text(json.dumps(tree))
    source = open_source(dataset.path)
    assert "steps/observation/sound is not stored (its type Audio is unknown)" in source.warnings
    assert "sound" not in next(iter(source.items)).load().trajectory.extra
