"""Globs of the configuration."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.changes.globs import matches


@pytest.mark.parametrize(
    ("glob", "path", "expected"),
    [
        ("src/models/**", "src/models/a.py", True),
        ("src/models/**", "src/models/x/y/a.py", True),
        ("src/models/**", "src/modelsx/a.py", False),
        ("src/models", "src/models/x/a.py", True),
        ("src/models/", "src/models/a.py", True),
        ("./src/*.py", "src/a.py", True),
        ("src/*.py", "src/x/a.py", False),
        ("**/bench.py", "bench.py", True),
        ("**/bench.py", "a/b/bench.py", True),
        ("**/bench.py", "a/mybench.py", False),
        ("a/**/b/*.json", "a/b/x.json", True),
        ("a/**/b/*.json", "a/x/y/b/x.json", True),
        ("a?.py", "ab.py", True),
        ("a?.py", "a/.py", False),
        ("**", "any/thing", True),
        ("a.py", "abpy", False),
        ("a[0].py", "a[0].py", True),
    ],
)
def test_matches__stars_and_folders(glob, path, expected):
    assert matches(path, glob) is expected


@given(st.lists(st.text("ab.+[(", min_size=1, max_size=4), min_size=1, max_size=4))
def test_matches__a_path_without_stars_is_itself(parts):
    path = "x" + "/".join(parts)
    assert matches(path, path)
    assert matches(f"{path}/below", path)
