"""Builders for the tests of the github room."""

import json
from pathlib import Path
from typing import Any

from perfgate.github.events import Event
from perfgate.records.evidence import FORMAT, CiRun, Environment, Measurements, Revision, RunInfo
from perfgate.records.policy import Policy
from perfgate.records.report import MetricResult, ModelResult, PolicySummary, Report, WorkloadKey

BASE, HEAD, MERGE = "b" * 40, "a" * 40, "c" * 40
REPOSITORY = "octo/models"


def make_ci(**changes: Any) -> CiRun:
    values: dict[str, Any] = {
        "repository": REPOSITORY, "run_id": "77", "attempt": 1, "workflow": "perfgate", "event": "pull_request",
        "pull_request": 7,
    }  # fmt: skip
    return CiRun(**{**values, **changes})


def make_event(**changes: Any) -> Event:
    values: dict[str, Any] = {
        "name": "pull_request", "action": "synchronize", "repository": REPOSITORY, "base": BASE, "head": HEAD,
        "pull_request": 7, "is_fork": False, "private": False, "default_branch": "main", "ci": make_ci(), "gated": True,
        "record_as": "pr/7",
    }  # fmt: skip
    return Event(**{**values, **changes})


def make_row(**changes: Any) -> MetricResult:
    values: dict[str, Any] = {
        "metric": "latency", "kind": "noisy", "unit": "ns", "base": 10e6, "head": 12e6, "ratio": 1.2, "ci_low": 1.15,
        "ci_high": 1.25, "limit": 0.03, "verdict": "regression", "pairs": 8, "gated": True,
    }  # fmt: skip
    return MetricResult(**{**values, **changes})


def make_model(*rows: MetricResult, model: str = "resnet50", **changes: Any) -> ModelResult:
    key = WorkloadKey(mode="train", batch=32, dtype="float32", device="cpu", compile="eager")
    values: dict[str, Any] = {"model": model, "key": f"{model}/train/b32", "workload": key, "verdict": "regression"}
    return ModelResult(metrics=rows, **{**values, **changes})


def make_report(*models: ModelResult, **changes: Any) -> Report:
    values: dict[str, Any] = {
        "format": 1, "verdict": "regression", "base": Revision(sha=BASE), "head": Revision(sha=HEAD),
        "environment": Environment(hardware_id="hw"), "title": "resnet50 trains 20 % slower", "why": "More work.",
        "exit_code": 1, "check": "failure", "would_fail": True, "run": make_run(),
        "policy": make_policy_summary(),
    }  # fmt: skip
    return Report(models=models, **{**values, **changes})


def make_policy_summary() -> PolicySummary:
    return PolicySummary(
        source="defaults", sha=None, mode="enforce", tolerance=0.03, false_alarm_rate=0.01, comparisons=1, looks=(5,)
    )


def make_run(ci: CiRun | None = None) -> RunInfo:
    return RunInfo(nonce="n", perfgate="0.1.0", started_at="2026-01-01T00:00:00Z", ci=ci)


def make_measurements(**changes: Any) -> Measurements:
    values: dict[str, Any] = {
        "format": FORMAT, "run": make_run(make_ci()), "base": Revision(sha=BASE), "head": Revision(sha=HEAD),
        "environment": Environment(hardware_id="hw"), "policy": Policy(source="defaults"),
    }  # fmt: skip
    return Measurements(**{**values, **changes})


def pull_request_payload(**changes: Any) -> dict[str, Any]:
    """The event of a pull request from the repository itself; ``changes`` by dotted key."""
    payload: dict[str, Any] = {
        "action": "synchronize",
        "number": 7,
        "pull_request": {
            "number": 7,
            "draft": False,
            "user": {"login": "alice"},
            "merge_commit_sha": MERGE,
            "base": {"ref": "main", "sha": BASE, "repo": {"id": 11}},
            "head": {"ref": "faster", "sha": HEAD, "repo": {"id": 11}},
        },
        "repository": {"full_name": REPOSITORY, "default_branch": "main", "private": False},
    }
    for key, value in changes.items():
        *path, last = key.split("__")
        node = payload
        for part in path:
            node = node[part]
        node[last] = value
    return payload


def make_environ(folder: Path, name: str, payload: Any, **more: str) -> dict[str, str]:
    """The environment of a workflow run, its event file written to ``folder``."""
    path = folder / "event.json"
    path.write_text(payload if isinstance(payload, str) else json.dumps(payload), encoding="utf-8")
    return {
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_NAME": name,
        "GITHUB_EVENT_PATH": str(path),
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_SHA": MERGE,
        "GITHUB_REF": "refs/heads/main",
        "GITHUB_RUN_ID": "77",
        "GITHUB_RUN_ATTEMPT": "1",
        "GITHUB_WORKFLOW": "perfgate",
        **more,
    }
