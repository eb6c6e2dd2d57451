"""GitHub's OpenAPI description, cut down to the operations that perfgate uses.

The description comes from the npm package ``@octokit/openapi`` through npm's own client, once, into ``.cache/`` at the
top of the repository, which git ignores. Nothing of it is committed.
"""

import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

PACKAGE = "@octokit/openapi@23.0.2"
MEMBER = "package/generated/api.github.com.json"
CACHE = Path(__file__).resolve().parents[3] / ".cache" / "openapi"

REPO = "/repos/{owner}/{repo}"
OPERATIONS = (
    ("get", "/user"),
    ("get", REPO + "/pulls/{pull_number}"),
    ("get", REPO + "/issues/{issue_number}"),
    ("get", REPO + "/issues/{issue_number}/comments"),
    ("post", REPO + "/issues/{issue_number}/comments"),
    ("patch", REPO + "/issues/comments/{comment_id}"),
    ("delete", REPO + "/issues/comments/{comment_id}"),
    ("post", REPO + "/check-runs"),
    ("patch", REPO + "/check-runs/{check_run_id}"),
    ("get", REPO + "/commits/{ref}/check-runs"),
    ("get", REPO + "/compare/{basehead}"),
    ("get", REPO + "/git/trees/{tree_sha}"),
    ("get", REPO + "/git/blobs/{file_sha}"),
)


class UnavailableError(Exception):
    """The description is not in the cache and cannot be fetched; the reason is for pytest.skip."""


def load() -> dict[str, Any]:
    """The trimmed description, from the cache or else from npm."""
    name = f"github-{len(OPERATIONS)}-{PACKAGE.rpartition('@')[2]}.json"
    path = CACHE / name
    if not path.is_file():
        CACHE.mkdir(parents=True, exist_ok=True)
        text = json.dumps(trim(_fetch(), OPERATIONS))
        # Written aside and renamed: several test processes may come here at once.
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=CACHE, delete=False) as file:
            file.write(text)
        os.replace(file.name, path)
    description: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    missing = [(m, p) for m, p in OPERATIONS if m not in description["paths"].get(p, {})]
    if missing:
        path.unlink()
        return load()
    return description


def _fetch() -> dict[str, Any]:
    npm = shutil.which("npm")
    if npm is None:
        raise UnavailableError("npm is not installed: no GitHub description to check against")
    with tempfile.TemporaryDirectory() as folder:
        line = [npm, "pack", "--silent", PACKAGE]
        done = subprocess.run(
            line, cwd=folder, check=False, capture_output=True, encoding="utf-8", timeout=300, stdin=subprocess.DEVNULL
        )
        packed = list(Path(folder).glob("*.tgz"))
        if done.returncode or not packed:
            raise UnavailableError(f"npm pack {PACKAGE} failed: {done.stderr.strip()[-300:]}")
        with tarfile.open(packed[0]) as archive:
            member = archive.extractfile(MEMBER)
            assert member is not None
            description: dict[str, Any] = json.load(member)
            return description


def trim(full: dict[str, Any], operations: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    """``full`` with only ``operations`` and the components that they lead to."""
    paths: dict[str, Any] = {}
    for method, path in operations:
        item = paths.setdefault(path, {"parameters": full["paths"][path].get("parameters", [])})
        item[method] = _plain(full["paths"][path][method])
    components: dict[str, dict[str, Any]] = {}
    todo = _references(paths)
    while todo:
        _, _, kind, name = todo.pop().split("/")
        if name not in components.setdefault(kind, {}):
            components[kind][name] = _plain(full["components"][kind][name])
            todo |= _references(components[kind][name])
    return {
        "openapi": full["openapi"],
        "info": full["info"],
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": components,
    }


def _plain(node: Any, *, names: bool = False) -> Any:
    """Without examples; ``names``: the keys of ``node`` are names of properties, none of which may go."""
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = {
        key: _plain(value, names=key == "properties" and not names)
        for key, value in node.items()
        if names or key not in ("example", "examples", "externalDocs", "x-github", "tags")
    }
    # "nullable" beside an enum without null: by the letter of OpenAPI 3.0.3 null would be refused, GitHub sends it.
    if not names and kept.get("nullable") is True and isinstance(kept.get("enum"), list) and None not in kept["enum"]:
        kept["enum"] = [*kept["enum"], None]
    return kept


def _references(node: Any) -> set[str]:
    if isinstance(node, list):
        return set().union(*map(_references, node)) if node else set()
    if not isinstance(node, dict):
        return set()
    found = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
    return found.union(*map(_references, node.values()))


class Sampler:
    """The smallest value that a schema of the description accepts."""

    def __init__(self, description: dict[str, Any], url: str) -> None:
        self._description = description
        self._url = url

    def response(self, method: str, path: str, status: int) -> Any:
        """The schema of one answer."""
        answer = self._follow(self._description["paths"][path][method]["responses"][str(status)])
        return self._follow(answer["content"]["application/json"]["schema"])

    def sample(self, schema: Any) -> Any:
        schema = self._follow(schema)
        # A null beside "oneOf" is refused by strict validators, and GitHub does send a member there.
        if schema.get("nullable") and "oneOf" not in schema:
            return None
        if "enum" in schema:
            return schema["enum"][0]
        for key in ("oneOf", "anyOf"):
            if key in schema and "properties" not in schema:
                return self.sample(schema[key][0])
        if "allOf" in schema:
            merged: dict[str, Any] = {}
            for part in schema["allOf"]:
                merged |= self.sample(part)
            return merged
        match schema.get("type", "object"):
            case "object":
                known = schema.get("properties", {})
                return {name: self.sample(known.get(name, {"type": "string"})) for name in schema.get("required", [])}
            case "array":
                return []
            case "integer" | "number":
                return schema.get("minimum", 1)
            case "boolean":
                return False
            case _:
                texts = {"uri": f"{self._url}/elsewhere", "date-time": "2026-01-01T00:00:00Z"}
                return texts.get(schema.get("format", ""), "x" * schema.get("minLength", 1))

    def _follow(self, node: Any) -> Any:
        while "$ref" in node:
            _, _, kind, name = node["$ref"].split("/")
            node = self._description["components"][kind][name]
        return node
