"""Which commits are compared, in full and in shallow clones (case B42)."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfgate.changes.revisions import resolve, single
from perfgate.errors import HistoryError, UsageError
from perfgate.records.evidence import Revision
from tests.changes.helpers import Repo


def pull_request(tmp_path: Path, *, commits: int = 3, moved: int = 4) -> tuple[Repo, dict[str, str]]:
    """A bare remote with ``main``, moved on after a pull request of some commits left it, and its test merge."""
    work = Repo(tmp_path / "work")
    work.commit({"a": "0"})
    names = {"fork point": work.commit({"a": "1"})}
    work.branch("feature")
    for number in range(commits):
        names["head"] = work.commit({f"f{number}": "x"})
    work("switch", "--quiet", "main")
    for number in range(moved):
        names["base"] = work.commit({f"m{number}": "x"})
    names["merge"] = work.merge("feature")
    remote = Repo(tmp_path / "remote.git", bare=True)
    work("push", "--quiet", str(remote.root), f"{names['base']}:refs/heads/main", "feature",
         f"{names['merge']}:refs/pull/1/merge")  # fmt: skip
    return remote, names


def shallow_clone(tmp_path: Path, remote: Repo, ref: str = "refs/pull/1/merge", depth: int = 1) -> Repo:
    """As actions/checkout leaves it: one commit, detached."""
    clone = Repo(tmp_path / "clone")
    clone("remote", "add", "origin", f"file://{remote.root}")
    clone("fetch", "--quiet", "--no-tags", f"--depth={depth}", "origin", ref)
    clone("checkout", "--quiet", "--detach", "FETCH_HEAD")
    return clone


def test_resolve__base_is_the_merge_base(tmp_path):
    _, names = pull_request(tmp_path)
    work = Repo(tmp_path / "work")
    found = resolve(work.git, base=names["base"], head="feature")
    assert found.base == Revision(sha=names["fork point"], name=names["base"])
    assert found.head == Revision(sha=names["head"], name="feature")
    assert found.base_tip == names["base"]


def test_resolve__without_merge_base_takes_the_commit_named(tmp_path):
    _, names = pull_request(tmp_path)
    found = resolve(Repo(tmp_path / "work").git, base=names["base"], head=names["head"], merge_base=False)
    assert found.base.sha == names["base"]


def test_resolve__equal_commits(tmp_path):
    repo = Repo(tmp_path / "repo")
    sha = repo.commit()
    found = resolve(repo.git, base="main", head="HEAD")
    assert found.base.sha == found.head.sha == sha


def test_resolve__depth_one_clone_of_the_test_merge(tmp_path):
    remote, names = pull_request(tmp_path)
    clone = shallow_clone(tmp_path, remote)
    assert clone.git.rev_parse(names["base"]) is None
    found = resolve(clone.git, base=names["base"], head=names["head"])
    assert (found.base.sha, found.head.sha) == (names["fork point"], names["head"])


def test_resolve__branch_that_only_the_remote_has(tmp_path):
    remote, names = pull_request(tmp_path)
    clone = shallow_clone(tmp_path, remote)
    found = resolve(clone.git, base="main", head="feature")
    assert (found.base.sha, found.head.sha) == (names["fork point"], names["head"])
    assert found.base_tip == names["base"]


def test_resolve__a_newer_merge_base_beyond_the_boundary_is_found(tmp_path):
    """Head reaches an old common commit by a short path and a newer one by a long path, which the clone cuts off."""
    work = Repo(tmp_path / "work")
    old = work.commit({"a": "0"})
    newer = work.commit({"m": "0"})
    work.branch("long")
    for number in range(4):
        work.commit({"l": str(number)})
    work.branch("feature", old)
    work.commit({"f": "0"})
    head = work.merge("long")
    work("switch", "--quiet", "main")
    tip = work.commit({"m": "1"})
    remote = Repo(tmp_path / "remote.git", bare=True)
    work("push", "--quiet", str(remote.root), "main", "feature")
    clone = shallow_clone(tmp_path, remote, "refs/heads/feature", depth=3)
    clone("fetch", "--quiet", "--no-tags", "--depth=10", "origin", tip)
    assert clone("merge-base", tip, head) == old
    assert resolve(clone.git, base=tip, head=head).base.sha == newer


def test_resolve__full_clone_stays_full(tmp_path):
    remote, names = pull_request(tmp_path)
    clone = Repo(tmp_path / "clone")
    clone("remote", "add", "origin", f"file://{remote.root}")
    clone("fetch", "--quiet", "origin", "refs/heads/main")
    clone("checkout", "--quiet", "--detach", "FETCH_HEAD")
    assert resolve(clone.git, base="HEAD", head=names["head"]).base.sha == names["fork point"]
    assert clone("rev-parse", "--is-shallow-repository") == "false"


def test_resolve__shallow_without_its_remote_is_refused(tmp_path):
    remote, names = pull_request(tmp_path)
    clone = shallow_clone(tmp_path, remote, depth=1)
    clone("fetch", "--quiet", "--depth=1", "origin", names["base"], names["head"])
    clone("remote", "set-url", "origin", f"file://{tmp_path}/gone.git")
    with pytest.raises(HistoryError, match=r"shallow.*fetch-depth: 0"):
        resolve(clone.git, base=names["base"], head=names["head"])


def test_resolve__shallow_without_any_remote_is_refused(tmp_path):
    remote, names = pull_request(tmp_path)
    clone = shallow_clone(tmp_path, remote)
    clone("remote", "remove", "origin")
    with pytest.raises(HistoryError, match="fetch-depth: 0"):
        resolve(clone.git, base=names["base"], head="HEAD")


def test_resolve__remote_that_is_shallow_itself_is_refused(tmp_path):
    remote, names = pull_request(tmp_path)
    middle = Repo(tmp_path / "middle.git", bare=True)
    middle("fetch", "--quiet", "--depth=1", f"file://{remote.root}", "main:main", "feature:feature")
    clone = Repo(tmp_path / "clone")
    clone("remote", "add", "origin", f"file://{middle.root}")
    clone("fetch", "--quiet", "--depth=1", "origin", "main", "feature")
    with pytest.raises(HistoryError, match="fetch-depth: 0"):
        resolve(clone.git, base=names["base"], head=names["head"])


def test_resolve__unrelated_histories(tmp_path):
    repo = Repo(tmp_path / "repo")
    repo.commit({"a": "1"})
    repo("switch", "--quiet", "--orphan", "other")
    repo.commit({"b": "1"})
    with pytest.raises(HistoryError, match="have no common commit"):
        resolve(repo.git, base="main", head="other")


def test_resolve__unknown_name(tmp_path):
    repo = Repo(tmp_path / "repo")
    repo.commit()
    with pytest.raises(HistoryError, match="no commit is called 'mian' here"):
        resolve(repo.git, base="mian", head="HEAD")


def test_resolve__option_as_name(tmp_path):
    repo = Repo(tmp_path / "repo")
    repo.commit()
    with pytest.raises(UsageError, match="is not a revision"):
        resolve(repo.git, base="--upload-pack=touch /tmp/x", head="HEAD")


def test_single__a_commit(tmp_path):
    repo = Repo(tmp_path / "repo")
    sha = repo.commit()
    repo.commit()
    assert single(repo.git, "HEAD~1") == Revision(sha=sha, name="HEAD~1")
