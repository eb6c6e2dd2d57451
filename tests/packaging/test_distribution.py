"""What users install: wheel and sdist are built, installed outside the checkout, and used."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = sorted(path.name for path in (ROOT / "templates").iterdir())


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built from it."""
    target = tmp_path_factory.mktemp("dist")
    # hatchling is installed with the development tools, so no build environment needs the network.
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


@pytest.mark.slow
def test_wheel__holds_the_templates_schemas_and_migrations(distributions: Path) -> None:
    (wheel,) = distributions.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert sorted(Path(n).name for n in names if n.startswith("perfgate/templates/")) == TEMPLATES
    assert "perfgate/schemas/report.schema.json" in names
    assert {"perfgate/hardware/platforms.toml", "perfgate/roofline/calibration.toml"} <= set(names)
    prices = {path.name for path in (ROOT / "perfgate/hardware/prices").glob("*.csv")}
    assert {Path(n).name for n in names if n.startswith("perfgate/hardware/prices/")} == prices
    assert any(n.startswith("perfgate/store/migrations/versions/") and n.endswith(".py") for n in names)
    assert not [n for n in names if n.startswith(("tests/", "baselines/", "examples/"))]


@pytest.mark.slow
def test_sdist__holds_the_templates_and_tests(distributions: Path) -> None:
    (sdist,) = distributions.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = ["/".join(name.split("/")[1:]) for name in archive.getnames()]
    assert {f"templates/{name}" for name in TEMPLATES} <= set(names)
    assert "action.yml" in names
    assert any(name.startswith("tests/") for name in names)


@pytest.mark.slow
def test_wheel__installed_elsewhere_renders_a_report(distributions: Path, tmp_path: Path) -> None:
    (wheel,) = distributions.glob("*.whl")
    venv.create(tmp_path / "venv", system_site_packages=False, with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    # The dependencies come from the interpreter that runs the tests; perfgate itself from the wheel alone.
    site = next((tmp_path / "venv" / "lib").glob("python*/site-packages"))
    zipfile.ZipFile(wheel).extractall(site)
    outer = [path for path in sys.path if path.endswith("site-packages")]
    (site / "zz_dependencies.pth").write_text("\n".join(outer), encoding="utf-8")
    code = (
        "import perfgate, pathlib\n"
        "from perfgate.report import templates\n"
        "assert 'venv' in perfgate.__file__, perfgate.__file__\n"
        "folder = templates.folder()\n"
        "print(sorted(item.name for item in folder.iterdir()))\n"
    )
    done = subprocess.run([str(python), "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(TEMPLATES)


def test_core__declares_no_torch() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert not [name for name in project["dependencies"] if name.startswith(("torch", "onnxruntime"))]
    assert {"torch", "onnx", "nvml", "postgres", "all", "dev"} <= set(project["optional-dependencies"])
