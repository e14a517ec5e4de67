"""Built-in specs are valid, and a wrong spec is refused with its field."""

from __future__ import annotations

from pathlib import Path

import pytest

from ares.errors import SourceError
from ingest.spec import builtin_layouts, find_builtin_spec, read_spec

SPECS = sorted((Path(__file__).parents[2] / "ingest" / "specs").glob("*.yaml"))


FAMILIES = sorted((Path(__file__).parents[2] / "ingest" / "specs" / "families").glob("*.yaml"))


@pytest.mark.parametrize("path", [*SPECS, *FAMILIES], ids=lambda path: path.stem)
def test_every_shipped_spec_is_valid_and_says_where_it_is_from(path: Path) -> None:
    assert read_spec(path).reference


# Control frequencies of the Open X-Embodiment overview, which lists them beside the registered names.
RATES = {
    "nyu_rot_dataset": 3, "ucsd_kitchen_dataset": 2, "cmu_franka_exploration_dataset": 10,
    "berkeley_fanuc_manipulation": 10, "cmu_stretch": 10, "cmu_play_fusion": 5, "jaco_play": 10,
    "dlr_edan_shared_control": 5, "imperialcollege_sawyer_wrist_cam": 10, "tokyo_u_lsmo": 10,
    "ucsd_pick_and_place_dataset": 3, "asu_table_top": 12.5, "viola": 20, "kaist_nonprehensile": 10,
    "berkeley_mvp": 5, "utokyo_saytap": 50, "droid": 15,
}  # fmt: skip


@pytest.mark.parametrize("name", RATES)
def test_rates_are_those_of_the_overview(name: str) -> None:
    spec = find_builtin_spec(name) or find_builtin_spec(f"{name}_converted_externally_to_rlds")
    assert spec is not None and spec.rate_hz == RATES[name]


def test_only_specs_that_were_held_against_records_say_so() -> None:
    assert {path.stem for path in SPECS if read_spec(path).verified} == {"bridge_dataset", "metaworld_sawyer"}


def test_every_family_is_recognised_by_its_layout() -> None:
    layouts = builtin_layouts()
    assert {*layouts} == {path.stem for path in FAMILIES}
    assert all(layout.match and (layout.action or layout.state) for layout in layouts.values())


def test_known_and_unknown_datasets() -> None:
    droid = find_builtin_spec("droid")
    assert droid is not None and (droid.rate_hz, droid.cameras["wrist_image_left"]) == (15.0, "wrist")
    assert (
        find_builtin_spec("nobody_knows") is None
        and find_builtin_spec("") is None
        and find_builtin_spec("../spec") is None
    )


def test_wrong_specs_name_the_field(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("rate_hz: -1\nreference: x\n")
    with pytest.raises(SourceError, match=r"a.yaml: rate_hz"):
        read_spec(path)
    path.write_text("{")
    with pytest.raises(SourceError, match="dataset spec is not YAML"):
        read_spec(path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("layout: {match: [[a]], stat: [[b]]}", "layout.stat"),
        ("layout: {path: ['(']}", "'\\('.* is no regular expression"),
        ("layout: {variants: [{robot: UR5e}]}", "layout.variants.0.when"),
    ],
)
def test_wrong_layouts_name_the_field(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(f"reference: x\n{text}\n")
    with pytest.raises(SourceError, match=reason):
        read_spec(path)
