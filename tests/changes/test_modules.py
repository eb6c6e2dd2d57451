"""Tracked files and importable names."""

from __future__ import annotations

from perfgate.changes.modules import module_file, tracked_modules
from tests.changes.helpers import Repo


def tracked(tmp_path, *files: str, pythonpath=(".",)) -> dict[str, str]:
    repo = Repo(tmp_path / "repo")
    return tracked_modules(repo.git, repo.commit(dict.fromkeys(files, "")), pythonpath)


def test_tracked_modules__source_folder_both_ways(tmp_path):
    assert tracked(tmp_path, "src/pkg/__init__.py", "src/pkg/mod.py") == {
        "pkg": "src/pkg/__init__.py",
        "pkg.mod": "src/pkg/mod.py",
        "src.pkg": "src/pkg/__init__.py",
        "src.pkg.mod": "src/pkg/mod.py",
    }


def test_tracked_modules__folder_that_holds_a_package_is_a_root(tmp_path):
    names = tracked(tmp_path, "python/lib/pkg/__init__.py", "python/lib/pkg/deep/__init__.py", "python/lib/one.py")
    assert names["pkg.deep"] == "python/lib/pkg/deep/__init__.py"
    assert names["one"] == "python/lib/one.py"
    assert "deep" not in names


def test_tracked_modules__copies_of_other_peoples_packages_keep_their_place(tmp_path):
    names = tracked(tmp_path, "pkg/__init__.py", "third_party/numpy/__init__.py", "tests/yaml/__init__.py")
    assert {"numpy", "yaml"}.isdisjoint(names)
    assert "third_party.numpy" in names


def test_tracked_modules__first_root_wins(tmp_path):
    names = tracked(tmp_path, "pkg/a.py", "src/pkg/a.py", pythonpath=("src", "."))
    assert names["pkg.a"] == "src/pkg/a.py"


def test_tracked_modules__what_cannot_be_imported_is_left_out(tmp_path):
    assert tracked(tmp_path, "my-script.py", "2nd/x.py", "data.txt") == {}


def test_module_file__package_before_module_and_roots_in_order():
    files = {"a/m.py", "a/m/__init__.py", "b/m.py", "b/only.py"}
    assert module_file(files, ("a", "b"), "m") == "a/m/__init__.py"
    assert module_file(files, ("a", "b"), "only") == "b/only.py"
    assert module_file(files, (".",), "b.only") == "b/only.py"
    assert module_file(files, (".",), "only") is None
