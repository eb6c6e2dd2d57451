"""Which models a change touches, and why."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.changes import classify
from perfgate.changes.changed import ChangedFile
from perfgate.changes.touched import Touched, decide, only_documentation, side_changes
from perfgate.records.evidence import Skipped
from perfgate.records.workload import ModelSpec, SideConfig


def changed(*paths: str) -> tuple[ChangedFile, ...]:
    return tuple(ChangedFile(path=path, status="modified") for path in paths)


def judge(*files: ChangedFile | str, failed=(), paths=(), loaded=("src/net.py", "docs/vocabulary.md")) -> Touched:
    """Model ``net`` loads two files, ``other`` loads one; the globs are those of ``net``."""
    specs = {"net": ModelSpec(name="net", paths=paths), "other": ModelSpec(name="other")}
    changes = [file if isinstance(file, ChangedFile) else changed(file)[0] for file in files]
    return decide(changes, {"net": frozenset(loaded), "other": {"src/other.py"}}, specs, failed=failed)


def test_decide__python_that_one_model_loads():
    answer = judge("src/net.py")
    assert answer.models == {"net": "it loads src/net.py, which changed"}
    why = "the changed file is documentation or Python that neither side of it loads"
    assert answer.skipped == (Skipped(model="other", reason=why),)
    assert answer.environment == ()


def test_decide__python_that_nobody_loads():
    answer = judge("src/unused.py", "tests/test_net.py", "README.md")
    assert answer.models == {}
    assert [skipped.model for skipped in answer.skipped] == ["net", "other"]
    assert answer.skipped[0].reason.startswith("all 3 changed files are documentation or Python")


def test_decide__documentation_that_a_model_opens():
    assert list(judge("docs/vocabulary.md").models) == ["net"]
    assert judge("docs/other.md").models == {}


def test_decide__both_names_of_a_rename():
    away = ChangedFile(path="src/renamed.py", status="renamed", old_path="src/net.py")
    onto = ChangedFile(path="src/net.py", status="renamed", old_path="src/old.py")
    assert judge(away).models == {"net": "it loads src/net.py (now src/renamed.py), which changed"}
    assert list(judge(onto).models) == ["net"]
    to_data = ChangedFile(path="weights.json", status="renamed", old_path="notes.md")
    assert list(judge(to_data).models) == ["net", "other"]


@pytest.mark.parametrize(
    "path",
    [
        "requirements.txt", "requirements-dev.txt", "requirements/gpu.in", "docs/requirements.txt", "uv.lock",
        "poetry.lock", "sub/Pipfile.lock", "package-lock.json", "pylock.toml", "pyproject.toml", "setup.py",
        "setup.cfg",
        "environment.yml", "gpu-environment.yaml", "conda-linux.yml", "Dockerfile", "docker/gpu.Dockerfile",
        "Dockerfile.cuda", "constraints.txt", ".python-version", "sitecustomize.py", "pkg.pth",
    ],
)  # fmt: skip
def test_decide__environment_touches_everything_and_is_named(path):
    answer = judge(path)
    assert answer.environment == (path,)
    assert answer.models == dict.fromkeys(
        ["net", "other"], f"{path} changed, which may change every model's environment"
    )


@pytest.mark.parametrize(
    "path",
    [
        "csrc/kernel.cu", "ext.cpp", "docs/example.c", "conf/train.yaml", "config.json", "Makefile", "data.bin",
        "run.sh",
        "notes.txt", "model.onnx", "README.json", "LICENSES.csv", ".gitignore", ".github/workflows/ci.yml",
        "notebook.ipynb",
    ],
)  # fmt: skip
def test_decide__what_cannot_be_classified_touches_everything(path):
    answer = judge(path)
    assert answer.models == dict.fromkeys(
        ["net", "other"], f"{path} changed, and perfgate cannot tell which models it touches"
    )
    assert answer.environment == ()


def test_decide__configuration_submodules_and_links_touch_everything():
    assert set(judge("perfgate.toml").models.values()) == {"perfgate.toml changed"}
    submodule = ChangedFile(path="ext/lib", status="modified", kind="submodule")
    assert set(judge(submodule).models.values()) == {"submodule ext/lib changed"}
    link = ChangedFile(path="docs/x.md", status="retyped", kind="link")
    assert len(judge(link).models) == 2


def test_decide__paths_add_to_what_is_loaded():
    answer = judge("tests/net_data.py", paths=("tests/net_*",))
    assert answer.models == {"net": "tests/net_data.py changed, which its paths name (tests/net_*)"}
    assert list(judge("src/net.py", paths=("nothing/**",)).models) == ["net"]


def test_decide__model_whose_files_are_not_known():
    answer = judge("src/unused.py", failed={"other"})
    assert answer.models == {"other": "src/unused.py changed, and which files it loads is not known"}
    assert judge("README.md", failed={"other"}).models == {}
    specs = {"new": ModelSpec(name="new")}
    assert list(decide(changed("src/unused.py"), {}, specs).models) == ["new"]


def test_decide__sides_that_are_set_up_differently():
    base = SideConfig(source="x", setup="pip install .", python="python3")
    head = SideConfig(source="y", setup="pip install -U .", python="python3")
    specs = {"net": ModelSpec(name="net")}
    answer = decide(changed("README.md", "uv.lock"), {"net": ()}, specs, sides=(base, head))
    assert answer.environment == ("setup in the configuration", "uv.lock")
    assert list(answer.models) == ["net"]
    assert side_changes(base, base) == ()


def test_decide__nothing_changed():
    answer = judge()
    assert answer.models == {}
    assert answer.skipped[0].reason == "no file differs between base and head"


_PATHS = st.sampled_from(
    ["src/net.py", "src/other.py", "src/x.py", "README.md", "docs/a.html", "uv.lock", "a.yaml", "b"]
)


@given(paths=st.sets(_PATHS, min_size=1), failed=st.sets(st.sampled_from(["net", "other"])))
def test_decide__skipped_only_if_every_file_is_harmless(paths, failed):
    answer = judge(*paths, failed=failed)
    for name, own in (("net", "src/net.py"), ("other", "src/other.py")):
        python = {path for path in paths if path.endswith(".py")}
        harmless = paths <= python | {"README.md", "docs/a.html"} and own not in paths
        skipped = harmless and not (name in failed and python)
        assert (name in {item.model for item in answer.skipped}) == skipped
        assert (name in answer.models) != skipped


@given(paths=st.sets(_PATHS, min_size=1), more=st.sets(_PATHS))
def test_decide__more_changes_never_touch_less(paths, more):
    assert judge(*paths).models.keys() <= judge(*paths, *more).models.keys()


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["README.md", "docs/guide/index.html", "LICENSE", "CHANGELOG", "a/b/logo.PNG", "docs/mkdocs.yml"], True),
        (["README.md", "src/unused.py"], False),
        (["docs/conf.py"], False),
        (["docs/requirements.txt"], False),
        (["CHANGELOG.json"], False),
        ([], False),
    ],
)
def test_only_documentation__before_anything_is_started(paths, expected):
    assert only_documentation(changed(*paths)) is expected


def test_only_documentation__documentation_that_is_used():
    specs = {"net": ModelSpec(name="net", paths=("docs/prompts/**",))}
    assert not only_documentation(changed("docs/prompts/a.md"), specs)
    assert only_documentation(changed("docs/other.md"), specs)
    assert not only_documentation(changed("docs/vocabulary.md"), opened={"docs/vocabulary.md"})
    assert not only_documentation([ChangedFile(path="docs/x", status="modified", kind="submodule")])


def test_kind__renames_take_the_most_consequential_name():
    def renamed(old: str, new: str) -> str:
        return classify.kind(ChangedFile(path=new, status="renamed", old_path=old))

    assert renamed("a.md", "b.md") == classify.DOCUMENTATION
    assert renamed("a.md", "b.py") == classify.PYTHON
    assert renamed("a.yaml", "b.py") == classify.OTHER
    assert renamed("uv.lock", "old.md") == classify.ENVIRONMENT


ONNX = {
    "cnn": ModelSpec(name="cnn", entry="models/cnn.onnx"),
    "fed": ModelSpec(name="fed", entry="models/fed.onnx", make_inputs="bench:inputs"),
}
ONNX_FILES = {
    "cnn": {"models/cnn.onnx", "models/cnn.onnx.data"},
    "fed": {"models/fed.onnx", "bench.py"},
}
PLAIN = SideConfig(source="x")
MADE = SideConfig(source="x", setup="python export.py")


def onnx(*paths: str, sides=(PLAIN, PLAIN), failed=(), committed=None) -> dict[str, str]:
    return decide(changed(*paths), ONNX_FILES, ONNX, sides=sides, failed=failed, committed=committed).models


@pytest.mark.parametrize("path", ["models/cnn.onnx", "models/cnn.onnx.data"])
def test_decide__onnx_model_by_its_own_files(path):
    assert onnx(path)["cnn"] == f"it loads {path}, which changed"


@pytest.mark.parametrize("path", ["models/other.onnx", "data.bin", "conf/train.yaml", "src/net.py", "README.md"])
def test_decide__onnx_model_by_nothing_else(path):
    assert "cnn" not in onnx(path)
    answer = decide(changed(path), ONNX_FILES, ONNX, sides=(PLAIN, PLAIN))
    assert answer.skipped[0] == Skipped(model="cnn", reason="the changed file is not part of this ONNX model")


@pytest.mark.parametrize("path", ["uv.lock", "perfgate.toml"])
def test_decide__onnx_model_by_its_environment(path):
    assert onnx(path).keys() == ONNX.keys()


def test_decide__onnx_model_with_python_of_its_own():
    assert onnx("bench.py") == {"fed": "it loads bench.py, which changed"}
    # Its function may read any file.
    assert onnx("data.bin").keys() == {"fed"}


def test_decide__onnx_model_that_setup_may_make():
    why = "src/net.py changed, of which setup may make its file"
    assert onnx("src/net.py", sides=(MADE, MADE)) == {"cnn": why, "fed": why}
    assert "cnn" in onnx("conf/train.yaml", sides=(MADE, MADE))
    assert "cnn" not in onnx("README.md", sides=(MADE, MADE))
    both = {"models/cnn.onnx", "models/cnn.onnx.data"}
    assert "cnn" not in onnx("src/net.py", sides=(MADE, MADE), committed=both)
    assert "cnn" in onnx("src/net.py", sides=(MADE, MADE), committed=both - {"models/cnn.onnx.data"})


def test_decide__onnx_model_that_failed_on_a_side():
    assert "cnn" in onnx("data.bin", failed={"cnn"})


def test_only_documentation__onnx_model_in_a_documentation_folder():
    specs = {"net": ModelSpec(name="net", entry="docs/demo/net.onnx")}
    assert only_documentation(changed("docs/demo/net.onnx"))
    assert not only_documentation(changed("docs/demo/net.onnx"), specs)
    assert not only_documentation(changed("docs/demo/net.weights"), specs)
    assert only_documentation(changed("docs/other/data.bin", "docs/demo/README.md"), specs)
