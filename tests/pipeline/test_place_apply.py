from __future__ import annotations

import pytest

from perfgate.errors import MeasuringError, UsageError
from perfgate.pipeline import place_apply
from perfgate.records.placement import Piece, PlacementPlan
from tests.pipeline.test_place_problem import lowered, node

PARTS = ("plan.json", "placed.py", "interface.json")


def deployed(folder, text):
    (folder / "pieces").mkdir(parents=True)
    for name in PARTS:
        (folder / name).write_text(text)
    (folder / "pieces" / "00").write_text(text)
    return folder


def test_move__replaces_an_older_deployed_model_whole(tmp_path):
    old = deployed(tmp_path / "to", "old")
    (old / "pieces" / "01").write_text("old")
    place_apply._check(old)
    place_apply._move(deployed(tmp_path / "made", "new"), old)
    assert {one.read_text() for one in old.rglob("*") if one.is_file()} == {"new"}
    assert not (old / "pieces" / "01").exists()


@pytest.mark.parametrize("name", ["mine.py", ".git", "pieces2"])
def test_check__a_folder_with_anything_else_is_refused_and_kept(tmp_path, name):
    folder = deployed(tmp_path / "to", "old")
    (folder / name).write_text("mine")
    with pytest.raises(UsageError, match=f"holds {name}, which is no part of a deployed model; name a new folder"):
        place_apply._check(folder)
    assert (folder / name).read_text() == "mine"


def test_parts__a_name_that_the_model_has_no_more_is_told():
    graph = lowered(node("renamed"))
    piece = Piece(target="a cpu", library="a", device="cpu", file="0", nodes=("old",))
    plan = PlacementPlan(model="net", fingerprint=graph.fingerprint, pieces=(piece,))
    with pytest.raises(
        MeasuringError, match="net: the plan places old, which the model has no more; run perfgate place"
    ):
        place_apply._parts(graph, plan)


def test_check__takes_a_new_or_empty_folder_and_neither_a_file_nor_a_link(tmp_path):
    place_apply._check(tmp_path / "new")
    place_apply._check(tmp_path)
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("file", "link"):
        with pytest.raises(UsageError, match="is no folder"):
            place_apply._check(tmp_path / name)
