"""Bench code comes from base on both sides."""

from __future__ import annotations

import os
import py_compile
from contextlib import contextmanager

import pytest

from perfgate.changes.harness import Overlay, overlay
from perfgate.changes.worktrees import checkouts
from perfgate.errors import CheckoutError
from perfgate.records.policy import Policy
from perfgate.records.workload import ModelSpec, SideConfig
from tests.changes.helpers import Repo

NET = ModelSpec(name="net", entry="pkg.models:net", make_inputs="pkg.bench:inputs", step="pkg.loop:step")
BASE = {"src/pkg/models.py": "m1", "src/pkg/bench.py": "b1", "src/pkg/loop.py": "l1", "bench/data.txt": "d1"}


@contextmanager
def overlaid(tmp_path, head, *, spec: ModelSpec = NET, harness=("bench/**",), base=None):
    """(head's checkout, overlay) after ``head`` files were committed on top of base's."""
    repo = Repo(tmp_path / "repo")
    base_sha = repo.commit(base or BASE)
    head_sha = head(repo) if callable(head) else repo.commit(head)
    side = SideConfig(source="x", models={spec.name: spec}, pythonpath=("src",))
    with checkouts(repo.git, base_sha, head_sha, tmp_path / "runs") as trees:
        yield trees.head, overlay(repo.git, trees, side, Policy(source="x", harness=harness))


def text(tree, name: str):
    return (tree / name).read_text(encoding="utf-8")


def test_overlay__bench_code_is_bases_and_model_code_is_heads(tmp_path):
    head = {"src/pkg/models.py": "m2", "src/pkg/bench.py": "b2", "src/pkg/loop.py": "l2", "bench/data.txt": "d2"}
    with overlaid(tmp_path, head) as (tree, result):
        assert result.changed == ("bench/data.txt", "src/pkg/bench.py", "src/pkg/loop.py")
        assert [text(tree, name) for name in BASE] == ["m2", "b1", "l1", "d1"]
        assert result.banners == (
            (
                "This pull request changes bench code (bench/data.txt, src/pkg/bench.py, src/pkg/loop.py); "
                "both sides were judged with base's."
            ),
        )
        with result.restored():
            assert [text(tree, name) for name in BASE] == ["m2", "b2", "l2", "d2"]
        assert [text(tree, name) for name in BASE] == ["m2", "b1", "l1", "d1"]


def test_overlay__equal_bench_code(tmp_path):
    with overlaid(tmp_path, {"src/pkg/models.py": "m2"}) as (tree, result):
        assert (result.changed, result.new, result.shared, result.banners) == ((), (), (), ())
        assert text(tree, "src/pkg/models.py") == "m2"


def test_overlay__module_that_is_model_code_too_stays(tmp_path):
    spec = ModelSpec(name="net", entry="pkg.models:net", make_inputs="pkg.models:inputs")
    with overlaid(tmp_path, {"src/pkg/models.py": "m2"}, spec=spec) as (tree, result):
        assert (result.changed, result.shared) == ((), ("src/pkg/models.py",))
        assert text(tree, "src/pkg/models.py") == "m2"
        assert result.banners == (
            "Bench code that is model code too differs (src/pkg/models.py); each side ran with its own.",
        )


def test_overlay__step_without_a_model_is_what_is_measured(tmp_path):
    spec = ModelSpec(name="net", step="pkg.loop:step", make_inputs="pkg.bench:inputs", modes=("step",))
    with overlaid(tmp_path, {"src/pkg/loop.py": "l2", "src/pkg/bench.py": "b2"}, spec=spec) as (tree, result):
        assert (result.changed, result.shared) == (("src/pkg/bench.py",), ("src/pkg/loop.py",))
        assert text(tree, "src/pkg/loop.py") == "l2"


def test_overlay__file_that_head_deletes_comes_back(tmp_path):
    with overlaid(tmp_path, {"bench/data.txt": None}) as (tree, result):
        assert text(tree, "bench/data.txt") == "d1"
        with result.restored():
            assert not (tree / "bench" / "data.txt").exists()
        assert text(tree, "bench/data.txt") == "d1"


def test_overlay__file_that_head_renames(tmp_path):
    def head(repo: Repo) -> str:
        (repo.root / "bench" / "data.txt").rename(repo.root / "bench" / "other.txt")
        return repo.commit()

    with overlaid(tmp_path, head, base={**BASE, "bench/data.txt": "long enough to be seen as a rename\n" * 9}) as (
        tree,
        result,
    ):
        assert (result.changed, result.new) == (("bench/data.txt",), ("bench/other.txt",))
        assert (tree / "bench" / "data.txt").exists()


def test_overlay__folder_in_place_of_a_file(tmp_path):
    def head(repo: Repo) -> str:
        (repo.root / "bench" / "data.txt").unlink()
        return repo.commit({"bench/data.txt/inside": "x"})

    with overlaid(tmp_path, head) as (tree, result):
        assert text(tree, "bench/data.txt") == "d1"
        with result.restored():
            assert text(tree, "bench/data.txt/inside") == "x"
        assert text(tree, "bench/data.txt") == "d1"


def test_overlay__link_out_of_the_checkout_is_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()

    def head(repo: Repo) -> str:
        (repo.root / "bench" / "data.txt").unlink()
        (repo.root / "bench").rmdir()
        os.symlink(outside, repo.root / "bench")
        return repo.commit()

    with pytest.raises(CheckoutError, match=r"bench/data.txt leads out of the checkout"):
        with overlaid(tmp_path, head):
            pytest.fail("a file was written outside")
    assert list(outside.iterdir()) == []


def test_overlay__link_in_place_of_the_file_is_replaced(tmp_path):
    outside = tmp_path / "secret"
    outside.write_text("mine", encoding="utf-8")

    def head(repo: Repo) -> str:
        (repo.root / "bench" / "data.txt").unlink()
        os.symlink(outside, repo.root / "bench" / "data.txt")
        return repo.commit()

    with overlaid(tmp_path, head) as (tree, result):
        assert text(tree, "bench/data.txt") == "d1"
        with result.restored():
            assert (tree / "bench" / "data.txt").is_symlink()
    assert outside.read_text(encoding="utf-8") == "mine"


def test_apply__byte_code_of_the_other_version_goes(tmp_path):
    with overlaid(tmp_path, {"src/pkg/bench.py": "b = 2"}, base={**BASE, "src/pkg/bench.py": "b = 1"}) as (
        tree,
        result,
    ):
        assert isinstance(result, Overlay)
        compiled = py_compile.compile(str(tree / "src" / "pkg" / "bench.py"))
        assert compiled
        assert os.path.exists(compiled)
        result.restore()
        assert not os.path.exists(compiled)
