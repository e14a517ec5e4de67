"""URDF files that are hostile or wrong: each costs one clear line, and no mesh is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from ares.contract import read_kinematic_chains
from ares.errors import AresError
from tests.ares.contract.robots import joint, robot

ENTITY = '<!DOCTYPE r [<!ENTITY e SYSTEM "file:///etc/hostname">]>'
MESH = '<link name="m"><visual><geometry><mesh filename="file:///dev/zero"/></geometry></visual></link>'


def _write(folder: Path, text: str) -> str:
    path = folder / "robot.urdf"
    path.write_text(text)
    return str(path)


WRONG = {
    "entities": (ENTITY + robot(), "XML declares a document type"),
    "another root": ("<sdf/>", "its root is <sdf>, not <robot>"),
    "xacro": (robot(more="<xacro:macro/>"), "expand it first"),
    "circle": (robot(joint("a", "l0", "l1"), joint("b", "l1", "l0"), links=2), "go in a circle"),
    "itself": (robot(joint("a", "l1", "l1"), links=2), "go in a circle"),
    "missing link": (robot(joint("a", "l9", "l1")), "parent 'l9' of joint 'a'"),
    "no child": (robot('<joint name="a" type="fixed"/>', links=2), "child '' of joint 'a'"),
    "two parents": (
        robot(joint("a", "l0", "l1"), joint("b", "l0", "l1")),
        "two joints that lead to one link",
    ),
    "two names": (robot(joint("a", "l0", "l1"), joint("a", "l1", "l2")), "two joints of one name: "),
    "floating": (robot(joint("a", "l0", "l1", type="floating")), "'a' is 'floating', not one of revolute"),
    "words": (
        robot(joint("a", "l0", "l1", '<origin xyz="0 0 ${z}"/>')),
        "origin xyz '0 0 ${z}' of joint 'a'",
    ),
    "infinite": (robot(joint("a", "l0", "l1", '<origin rpy="0 0 inf"/>')), "not 3 finite"),
    "no axis": (robot(joint("a", "l0", "l1", '<axis xyz="0 0 0"/>')), "without an axis"),
    "mimics nobody": (robot(joint("a", "l0", "l1", '<mimic joint="z"/>')), "'a' mimics 'z'"),
    "mimics itself": (robot(joint("a", "l0", "l1", '<mimic joint="a"/>')), "mimic each other in a circle"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_is_one_line(tmp_path: Path, case: str) -> None:
    text, expected = WRONG[case]
    with pytest.raises(AresError) as caught:
        read_kinematic_chains(_write(tmp_path, text), ["l1"])
    assert expected in str(caught.value) and "robot.urdf" in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300 + len(str(tmp_path))


def test_a_link_that_does_not_exist_has_the_one_that_was_meant(tmp_path: Path) -> None:
    path = _write(tmp_path, robot(joint("a", "l0", "l1"), more='<link name="gripper_link"/>'))
    with pytest.raises(AresError, match=r"no link 'griper_link'.*did you mean 'gripper_link'"):
        read_kinematic_chains(path, ["griper_link"])


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(AresError, match="URDF cannot be read"):
        read_kinematic_chains(str(tmp_path / "none.urdf"), ["l1"])


def test_meshes_are_not_opened_and_other_joints_not_looked_at(tmp_path: Path) -> None:
    odd = joint("odd", "l0", "m", type="floating")
    (chain,) = read_kinematic_chains(
        _write(tmp_path, robot(joint("a", "l0", "l1"), odd, links=2, more=MESH)), ["l1"]
    )
    assert [part.name for part in chain.joints] == ["a"]


def test_a_link_may_be_the_root(tmp_path: Path) -> None:
    (chain,) = read_kinematic_chains(_write(tmp_path, robot(joint("a", "l0", "l1"))), ["l0"])
    assert chain.joint_types == {}


def test_a_chain_begins_at_the_base(tmp_path: Path) -> None:
    path = _write(
        tmp_path,
        robot(joint("waist", "l0", "l1"), joint("a", "l1", "l2"), joint("b", "l1", "l3"), links=4),
    )
    left, right = read_kinematic_chains(path, ["l2", "l3"], "l1")
    assert (list(left.joint_types), list(right.joint_types)) == (["a"], ["b"])
    with pytest.raises(AresError, match="link 'l2' is not on the way to 'l3'"):
        read_kinematic_chains(path, ["l3"], "l2")
    with pytest.raises(AresError, match="no link 'torso'"):
        read_kinematic_chains(path, ["l3"], "torso")


def test_a_chain_of_mimics_ends_at_the_joint_that_moves(tmp_path: Path) -> None:
    urdf = robot(
        joint("a", "l0", "l1"),
        joint("b", "l1", "l2", '<mimic joint="a" multiplier="2" offset="0.5"/>'),
        joint("c", "l2", "l3", '<mimic joint="b" multiplier="3" offset="1"/>'),
    )
    last = read_kinematic_chains(_write(tmp_path, urdf), ["l3"])[0].joints[-1]
    assert (last.moved_by, last.multiplier, last.offset) == ("a", 6.0, 2.5)


@pytest.mark.nightly
def test_a_hundred_thousand_links_are_read(tmp_path: Path) -> None:
    joints = [joint(f"j{n}", f"l{n}", f"l{n + 1}") for n in range(100_000)]
    (chain,) = read_kinematic_chains(_write(tmp_path, robot(*joints)), ["l100000"])
    assert len(chain.joints) == 100_000
