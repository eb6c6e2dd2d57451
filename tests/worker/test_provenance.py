"""Each side has to load its own checkout: the proof, and the list of files it used."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import types

import pytest

from perfgate import wire
from perfgate.records.protocol import Failed, Opened
from perfgate.worker.provenance import OpenedFiles
from tests.worker.helpers import make_open, must_open, must_prepare, opened, prepare, started, write_files

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

MODEL = """
    def net():
        from torch import nn

        return nn.Linear(4, 2)
"""
PACKAGE = {"src/pkg/__init__.py": "", "src/pkg/models.py": MODEL}


@pytest.fixture
def repository(tmp_path):
    return write_files(tmp_path / "repository", PACKAGE)


@pytest.fixture
def checkout(tmp_path):
    return write_files(tmp_path / "worktrees" / "head", PACKAGE)


def site(tmp_path, line: str):
    """A folder whose .pth file is read at start, as an editable install leaves one in site-packages."""
    folder = tmp_path / "installed"
    folder.mkdir()
    (folder / "editable.pth").write_text(line, encoding="utf-8")
    start = f"import site; site.addsitedir({str(folder)!r})"
    (folder / "sitecustomize.py").write_text(start, encoding="utf-8")
    return {"PYTHONPATH": str(folder)}


# What a worker does between its first message and its answer, without torch, which takes seconds to import.
PROVE = """
import sys
from perfgate import wire
from perfgate.records.protocol import Prepare
from perfgate.worker import preparing, provenance
from perfgate.worker.failures import WorkerError

request = wire.loads(Prepare, sys.argv[1])
try:
    preparing.enter(request)
    for name in request.modules:
        preparing.import_module(name, request)
    provenance.prove(request, set())
except WorkerError as error:
    print(wire.dumps(error.failed))
"""


def ask(shim, request, env=None):
    """The failure, or None where the side proved to be its own."""
    paths = os.pathsep.join(filter(None, [str(shim), (env or {}).get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", PROVE, wire.dumps(request)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        encoding="utf-8",
        check=True,
        timeout=60,
    )
    return wire.loads(Failed, done.stdout) if done.stdout else None


TRACKED = {"pkg": "src/pkg/__init__.py"}


def test_prove__editable_install_of_the_main_checkout_is_foreign(shim, tmp_path, repository, checkout):
    request = prepare(checkout, "pkg.models", repository=str(repository), tracked=TRACKED)

    reply = ask(shim, request, site(tmp_path, str(repository / "src")))

    assert isinstance(reply, Failed)
    assert reply.kind == "foreign-code"
    assert str(repository / "src/pkg") in reply.message
    assert "src/pkg/__init__.py" in reply.message
    assert "set pythonpath or setup in perfgate.toml" in reply.message


def test_prove__it_is_foreign_even_if_nothing_is_tracked(shim, tmp_path, repository, checkout):
    request = prepare(checkout, "pkg.models", repository=str(repository))

    reply = ask(shim, request, site(tmp_path, str(repository / "src")))

    assert isinstance(reply, Failed)
    assert reply.kind == "foreign-code"


def test_prove__pythonpath_beats_the_editable_install(shim, tmp_path, repository, checkout):
    request = prepare(checkout, "pkg.models", repository=str(repository), tracked=TRACKED, pythonpath=("src",))

    assert ask(shim, request, site(tmp_path, str(repository / "src"))) is None


def test_prove__installed_copy_of_a_tracked_package_is_foreign(shim, tmp_path, repository, checkout):
    copy = write_files(tmp_path / "venv" / "site-packages", {"pkg/__init__.py": "", "pkg/models.py": MODEL})
    request = prepare(checkout, "pkg.models", repository=str(repository), tracked=TRACKED)

    reply = ask(shim, request, {"PYTHONPATH": str(copy)})

    assert isinstance(reply, Failed)
    assert reply.kind == "foreign-code"
    assert "site-packages/pkg/__init__.py" in reply.message


def test_prove__helper_package_loaded_from_elsewhere_is_foreign_too(shim, tmp_path, repository):
    checkout = write_files(tmp_path / "head", {"bench.py": "import pkg.models\nnet = pkg.models.net\n", **PACKAGE})
    request = prepare(checkout, "bench", repository=str(repository), tracked={**TRACKED, "bench": "bench.py"})

    reply = ask(shim, request, site(tmp_path, str(repository / "src")))

    assert isinstance(reply, Failed)
    assert "module pkg was loaded from" in reply.message


def test_prove__late_import_from_elsewhere_is_caught_when_opened(shim, tmp_path, repository):
    text = "def net():\n    import pkg.models\n    return pkg.models.net()\n"
    checkout = write_files(tmp_path / "head", {"bench.py": text, **PACKAGE})
    request = prepare(checkout, "bench", repository=str(repository), tracked={**TRACKED, "bench": "bench.py"})

    with started(shim, tmp_path / "log", env=site(tmp_path, str(repository / "src"))) as worker:
        must_prepare(worker, request)
        _, reply = opened(worker, make_open("bench:net"))

    assert isinstance(reply, Failed)
    assert reply.kind == "foreign-code"


def test_prove__third_party_entries_and_standard_names_are_allowed(shim, tmp_path):
    # The checkout tracks a folder called like a standard module, which is loaded from the library.
    checkout = write_files(tmp_path / "head", {"json/__init__.py": "", "readme.txt": ""})
    request = prepare(
        checkout,
        "torch.nn",
        repository=str(tmp_path / "elsewhere"),
        tracked={"json": "json/__init__.py"},
        pythonpath=(),
    )

    with started(shim, tmp_path / "log") as worker:
        must_prepare(worker, request)
        probe = must_open(worker, make_open("torch.nn:Identity", probe=True)).probe

    assert probe is not None
    assert probe.files == ()


def test_prove__interpreter_inside_the_repository_is_no_foreign_code(shim, tmp_path):
    # As with .venv at the root of the main checkout: torch itself is loaded from below the repository.
    repository = os.path.commonpath([sysconfig.get_path("purelib"), sys.prefix])
    checkout = write_files(tmp_path / "head", {"net.py": MODEL})

    assert ask(shim, prepare(checkout, "json.decoder", "numpy", "net", repository=repository)) is None


def test_prove__editable_install_fails_the_whole_side(shim, tmp_path, repository, checkout):
    request = prepare(checkout, "pkg.models", repository=str(repository), tracked=TRACKED)

    with started(shim, tmp_path / "log", env=site(tmp_path, str(repository / "src"))) as worker:
        reply = worker.ask(request)

    assert isinstance(reply, Failed)
    assert (reply.kind, reply.phase) == ("foreign-code", "import")


def test_prove__worktree_below_the_repository_is_its_own_and_one_broken_module_does_not_matter(shim, tmp_path):
    repository = write_files(tmp_path / "repository", {"net.py": MODEL})
    checkout = write_files(
        repository / ".perfgate" / "head", {"net.py": MODEL, "broken.py": "import nothing_like_it\n"}
    )

    with started(shim, tmp_path / "log") as worker:
        must_prepare(worker, prepare(checkout, "net", "broken", repository=str(repository), tracked={"net": "net.py"}))
        _, reply = opened(worker, make_open("net:net", probe=True))
        assert isinstance(reply, Opened), reply
        assert reply.probe is not None
        assert reply.probe.files == ("broken.py", "net.py")
        _, reply = opened(worker, make_open("broken:net"))

    assert (reply.kind, reply.phase) == ("import", "import")
    assert "nothing_like_it" in reply.message


def test_used__compiled_files_links_and_installed_copies_are_mapped_to_sources(tmp_path, monkeypatch):
    root = write_files(
        tmp_path / "co",
        {
            "a.py": "",
            "data/real.txt": "",
            "src/pkg_of_test/__init__.py": "",
            ".venv/lib/site-packages/pkg_of_test/__init__.py": "",
            ".git/HEAD": "",
        },
    )
    (root / "link.txt").symlink_to("data/real.txt")
    opened_files = OpenedFiles()
    installed = root / ".venv/lib/site-packages/pkg_of_test/__init__.py"
    opened_files.paths |= {
        str(root / "__pycache__" / f"a.{sys.implementation.cache_tag}.pyc"),
        str(root / "link.txt"),
        str(root / ".git/HEAD"),
        str(installed),
        str(root / "gone.txt"),
        str(root / "data"),
        str(tmp_path / "outside.txt"),
    }
    module = types.ModuleType("pkg_of_test")
    module.__file__ = str(installed)
    monkeypatch.setitem(sys.modules, "pkg_of_test", module)

    used = opened_files.used(prepare(root, tracked={"pkg_of_test": "src/pkg_of_test/__init__.py"}))

    assert used == ("a.py", "data/real.txt", "link.txt", "src/pkg_of_test/__init__.py")
