"""What publishing reads of the base revision, from a real repository behind the stand-in."""

import os
import subprocess

import pytest

from perfgate.errors import GitHubError
from perfgate.github import trusted
from perfgate.github.client import RefusedError
from tests.github.helpers import make_event


class History:
    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments):
        line = [
            "git",
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@example.invalid",
            "-c",
            "commit.gpgsign=false",
            *arguments,
        ]
        return subprocess.run(line, cwd=self.folder, check=True, capture_output=True, encoding="utf-8").stdout.strip()

    def commit(self, **files):
        for name, content in files.items():
            path = self.folder / name.replace("_toml", ".toml")
            if path.is_symlink() or path.exists():
                path.unlink()
            if isinstance(content, bytes):
                path.write_bytes(content)
            else:
                os.symlink(content, path)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "c")
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def history(stand_in, tmp_path):
    history = History(tmp_path / "repository")
    stand_in.git = history.folder
    return history


def test_base_sha__is_the_merge_base_of_a_pull_request(history, gateway):
    fork_point = history.commit(perfgate_toml=b"version = 1\n")
    history.git("switch", "--quiet", "--create", "topic")
    head = history.commit(code=b"2")
    history.git("switch", "--quiet", "main")
    moved_on = history.commit(other=b"3")
    assert trusted.base_sha(gateway, make_event(base=moved_on, head=head)) == fork_point


def test_base_sha__other_events_name_their_base(stand_in, gateway):
    assert trusted.base_sha(gateway, make_event(name="push", pull_request=None, base="e" * 40)) == "e" * 40
    assert trusted.base_sha(gateway, make_event(name="schedule", pull_request=None, base=None)) is None
    assert stand_in.requests == []


def test_policy_files__reads_what_is_there(history, gateway):
    text = '[gate]\ntolerance = "3%"  # µ\n'
    sha = history.commit(perfgate_toml=text.encode(), readme=b"x")
    assert trusted.policy_files(gateway, sha) == {"perfgate.toml": text}
    assert trusted.policy_files(gateway, history.commit(perfgate_toml=b"a", pyproject_toml=b"b")) == {
        "perfgate.toml": "a",
        "pyproject.toml": "b",
    }
    history.git("rm", "--quiet", "perfgate.toml", "pyproject.toml")
    assert trusted.policy_files(gateway, history.commit()) == {}


def test_policy_files__without_permission_is_an_error_and_not_the_answer_none(history, stand_in, gateway):
    sha = history.commit(perfgate_toml=b"version = 1\n")
    with pytest.raises(RefusedError, match="contents: read"):
        trusted.policy_files(gateway, "f" * 40)
    stand_in.forbidden.append(("GET", "/git/"))
    with pytest.raises(RefusedError, match="contents: read"):
        trusted.policy_files(gateway, sha)


def test_policy_files__refuses_links_and_other_encodings(history, gateway):
    with pytest.raises(GitHubError, match=r"perfgate\.toml at .*not a regular file"):
        trusted.policy_files(gateway, history.commit(perfgate_toml="/etc/passwd"))
    with pytest.raises(GitHubError, match=r"perfgate\.toml at .*not UTF-8"):
        trusted.policy_files(gateway, history.commit(perfgate_toml=b"\xff\xfe"))
