"""One pull request that breaks its models in many ways: each is said, none stops the others, nothing survives."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tests.pipeline.repositories import GATE, LINEAR, Gate, gate, left_behind, model, repository

pytestmark = [pytest.mark.torch, pytest.mark.slow]

HEADS = {
    "raises": """
        class Broken(nn.Module):
            def forward(self, x):
                raise RuntimeError("no such | path")

        build = Broken
    """,
    "hangs": """
        import time

        def build():
            time.sleep(3600)
    """,
    "exits": """
        import os

        class Gone(nn.Module):
            def forward(self, x):
                os._exit(7)

        build = Gone
    """,
    "eats": """
        def build():
            raise MemoryError
    """,
    "downloads": """
        import urllib.request

        def build():
            urllib.request.urlopen("http://127.0.0.1:9/weights.pt", timeout=2)
    """,
    "garbage": """
        import os

        for fd in (1, 2):
            os.write(fd, b'\\xff\\xfe{"type":"Prepared"}\\n' * 50)
    """,
    "detaches": """
        import os, time

        inner = build

        def build():
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    time.sleep(600)
                os._exit(0)
            return inner()
    """,
    "nans": """
        class Nan(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Linear(64, 64)

            def forward(self, x):
                return self.body(x) * float("nan")

        build = Nan
    """,
    "globals": """
        inner = build

        def build():
            torch.use_deterministic_algorithms(True)
            return inner()
    """,
}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Gate]:
    folder = tmp_path_factory.mktemp("hostile") / "repo"
    config = GATE + "".join(model(f"m_{name}", name, timeout='"6s"') for name in HEADS)
    base = {"perfgate.toml": config, **{f"{name}.py": LINEAR for name in HEADS}}
    repo = repository(folder, base, {f"{name}.py": LINEAR + dedent(text) for name, text in HEADS.items()})
    return repo, gate(repo)


def test_run__is_red_and_nothing_is_left(result: tuple[Path, Gate]) -> None:
    repo, run = result
    assert run.code == 1, run.err
    assert run.report is not None
    assert run.report["verdict"] == "regression"
    assert left_behind(repo) == []


@pytest.mark.parametrize(
    ("name", "word"),
    [("raises", "no such"), ("hangs", "6"), ("exits", "exit"), ("eats", "memory"), ("downloads", "download")],
)
def test_head_that_fails__is_a_regression_with_its_reason(  # M18 and its kind
    result: tuple[Path, Gate], name: str, word: str
) -> None:
    found = result[1].model(f"m_{name}")
    assert found["verdict"] == "regression"
    assert word in " ".join(found["reasons"]).lower()


@pytest.mark.parametrize("name", ["garbage", "detaches", "nans", "globals"])
def test_head_that_misbehaves_but_runs__is_still_measured(result: tuple[Path, Gate], name: str) -> None:
    row = result[1].row(f"m_{name}", "latency")
    assert row["pairs"] >= 3
    assert row["ratio"] is not None


def test_nan_outputs__are_said(result: tuple[Path, Gate]) -> None:
    assert any("nan" in reason.lower() for reason in result[1].model("m_nans")["reasons"])


def test_changed_global_state__is_said(result: tuple[Path, Gate]) -> None:
    assert any("deterministic" in reason.lower() for reason in result[1].model("m_globals")["reasons"])


def test_comment__shows_the_reasons_escaped(result: tuple[Path, Gate]) -> None:
    comment = (result[1].folder / "comment.md").read_text(encoding="utf-8")
    assert "no such" in comment
    assert "no such | path" not in comment
