"""The stand-in: an HTTP server on loopback with one repository, its pull requests, comments and check runs.

Every request is validated before it is looked at and every answer before it is sent. A request that GitHub's
description does not allow gets 422 and is listed in ``problems``; so is an answer of the stand-in's own that GitHub
would not give. Commits, trees and blobs are those of a real git repository.
"""

import base64
import json
import re
import subprocess
import threading
import urllib.parse
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from openapi_core import Config, OpenAPI
from openapi_core.exceptions import OpenAPIError
from openapi_core.testing import MockRequest, MockResponse

from tests.github.standin.spec import REPO, Sampler, load

BOT = "github-actions[bot]"
MAX_COMMENT = 65_536
MAX_ANNOTATIONS = 50


@dataclass
class Comment:
    id: int
    issue: int
    body: str
    login: str
    type: str = "Bot"


@dataclass
class Run:
    id: int
    name: str
    head_sha: str
    status: str = "queued"
    conclusion: str | None = None
    external_id: str = ""
    details_url: str = ""
    output: dict[str, Any] = field(default_factory=dict)
    annotations: list[dict[str, Any]] = field(default_factory=list)
    history: list[tuple[str, str | None]] = field(default_factory=list)


@dataclass
class Fault:
    """The next ``times`` requests that match are answered so; ``after``: only once they were carried out."""

    method: str
    path: str
    status: int
    message: str = "stand-in's fault"
    headers: dict[str, str] = field(default_factory=dict)
    times: int = 1
    after: bool = False


class ApiError(Exception):
    def __init__(self, status: int, message: str) -> None:
        self.status, self.message = status, message


class StandIn:
    def __init__(
        self, *, repository: str = "octo/models", token: str = "stand-in-token-0123456789", git: Path | None = None
    ):
        self.repository, self.token, self.git = repository, token, git
        self.account: str | None = None  # None: as for GITHUB_TOKEN, which may not ask who it is
        self.pulls: dict[int, tuple[str, str]] = {}  # number -> base and head commit
        self.comments: dict[int, Comment] = {}
        self.runs: dict[int, Run] = {}
        self.forbidden: list[tuple[str, str]] = []  # method and regular expression: 403 for ever
        self.faults: list[Fault] = []
        self.requests: list[tuple[str, str, dict[str, str], Any]] = []
        self.authorization: list[str] = []
        self.problems: list[str] = []
        self._next = 1_000
        self._lock = threading.RLock()
        self._description = load()
        self._api = OpenAPI.from_dict(self._description, config=Config(spec_validator_cls=None))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._sampler = Sampler(self._description, self.url)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def add_comment(self, issue: int, body: str, login: str = "someone", type_: str = "User") -> Comment:
        self._next += 1
        comment = Comment(id=self._next, issue=issue, body=body, login=login, type=type_)
        self.comments[comment.id] = comment
        return comment

    # -- one request -------------------------------------------------------------------------------------------------

    def serve(self, method: str, target: str, body: bytes, headers: Any) -> tuple[int, Any, dict[str, str]]:
        path, _, query = target.partition("?")
        arguments = dict(urllib.parse.parse_qsl(query))
        tree = json.loads(body) if body else None
        with self._lock:
            self.requests.append((method, path, arguments, tree))
            self.authorization.append(headers.get("authorization", ""))
            fault = self._fault(method, path, after=False)
            if fault is not None:
                return self._faulty(fault)
            if self.authorization[-1].rpartition(" ")[2] != self.token:
                return 401, _message("Bad credentials"), {}
            if any(verb == method and re.search(place, path) for verb, place in self.forbidden):
                return 403, _message("Resource not accessible by integration"), {}
            content_type = (headers.get("content-type") or "application/json").partition(";")[0]
            request = MockRequest(
                self.url, method.lower(), path, args=arguments, data=body or None, content_type=content_type
            )
            try:
                self._api.validate_request(request)
            except OpenAPIError as error:
                return self._problem(422, f"{method} {path} is not what GitHub documents: {error.__cause__ or error}")
            try:
                status, answer, more = self._route(method.lower(), path, arguments, tree)
            except ApiError as error:
                status, answer, more = error.status, _message(error.message), {}
            content = b"" if answer is None else json.dumps(answer).encode()
            try:
                self._api.validate_response(request, MockResponse(content, status_code=status))
            except OpenAPIError as error:
                return self._problem(599, f"own answer {status} to {method} {path}: {error.__cause__ or error}")
            fault = self._fault(method, path, after=True)
            return (status, answer, more) if fault is None else self._faulty(fault)

    def _fault(self, method: str, path: str, *, after: bool) -> Fault | None:
        for fault in self.faults:
            if fault.times and fault.after == after and fault.method == method and re.search(fault.path, path):
                fault.times -= 1
                return fault
        return None

    @staticmethod
    def _faulty(fault: Fault) -> tuple[int, Any, dict[str, str]]:
        return fault.status, _message(fault.message), fault.headers

    def _problem(self, status: int, text: str) -> tuple[int, Any, dict[str, str]]:
        self.problems.append(text[:900])
        return status, _message(text[:900]), {}

    def _route(self, method: str, path: str, arguments: dict[str, str], tree: Any) -> tuple[int, Any, dict[str, str]]:
        for (verb, template), function in self._routes().items():
            if verb != method:
                continue
            pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(template))
            found = re.fullmatch(pattern, path)
            if found:
                parts = found.groupdict()
                if "owner" in parts and f"{parts.pop('owner')}/{parts.pop('repo')}" != self.repository:
                    raise ApiError(404, "Not Found")
                status, answer = function(*(urllib.parse.unquote(part) for part in parts.values()), arguments, tree)
                return self._paged(path, arguments, status, answer)
        raise ApiError(404, "Not Found")

    def _paged(self, path: str, arguments: dict[str, str], status: int, answer: Any) -> tuple[int, Any, dict[str, str]]:
        items = answer["check_runs"] if isinstance(answer, dict) and "check_runs" in answer else answer
        if not isinstance(items, list):
            return status, answer, {}
        size, page = int(arguments.get("per_page", 30)), int(arguments.get("page", 1))
        shown = items[(page - 1) * size : page * size]
        answer = {**answer, "check_runs": shown} if isinstance(answer, dict) else shown
        if page * size >= len(items):
            return status, answer, {}
        query = urllib.parse.urlencode({**arguments, "page": page + 1})
        return status, answer, {"Link": f'<{self.url}{path}?{query}>; rel="next"'}

    def _routes(self) -> dict[tuple[str, str], Any]:
        return {
            ("get", "/user"): self._user,
            ("get", REPO + "/pulls/{pull_number}"): self._pull,
            ("get", REPO + "/issues/{issue_number}/comments"): self._list_comments,
            ("post", REPO + "/issues/{issue_number}/comments"): self._create_comment,
            ("patch", REPO + "/issues/comments/{comment_id}"): self._edit_comment,
            ("delete", REPO + "/issues/comments/{comment_id}"): self._delete_comment,
            ("post", REPO + "/check-runs"): self._create_run,
            ("patch", REPO + "/check-runs/{check_run_id}"): self._edit_run,
            ("get", REPO + "/commits/{ref}/check-runs"): self._list_runs,
            ("get", REPO + "/compare/{basehead}"): self._compare,
            ("get", REPO + "/git/trees/{tree_sha}"): self._tree,
            ("get", REPO + "/git/blobs/{file_sha}"): self._blob,
        }

    def _sample(self, method: str, path: str, status: int) -> Any:
        return self._sampler.sample(self._sampler.response(method, path, status))

    # -- people, pull requests, comments -----------------------------------------------------------------------------

    def _user(self, arguments: Any, tree: Any) -> tuple[int, Any]:
        if self.account is None:
            raise ApiError(403, "Resource not accessible by integration")
        return 200, {**self._sample("get", "/user", 200), "login": self.account, "user_view_type": "private"}

    def _pull(self, number: str, arguments: Any, tree: Any) -> tuple[int, Any]:
        if int(number) not in self.pulls:
            raise ApiError(404, "Not Found")
        path = f"{REPO}/pulls/{{pull_number}}"
        pull = {**self._sample("get", path, 200), "number": int(number), "url": f"{self._here}/pulls/{number}"}
        for side, sha in zip(("base", "head"), self.pulls[int(number)], strict=True):
            pull[side] = {**pull[side], "sha": sha}
        return 200, pull

    def _list_comments(self, number: str, arguments: Any, tree: Any) -> tuple[int, Any]:
        return 200, [self._comment_tree(comment) for comment in self.comments.values() if comment.issue == int(number)]

    def _create_comment(self, number: str, arguments: Any, tree: Any) -> tuple[int, Any]:
        if int(number) not in self.pulls:
            raise ApiError(404, "Not Found")
        self._check_length(tree["body"])
        comment = self.add_comment(int(number), tree["body"], self.account or BOT, "User" if self.account else "Bot")
        return 201, self._comment_tree(comment)

    def _edit_comment(self, number: str, arguments: Any, tree: Any) -> tuple[int, Any]:
        comment = self._own_comment(number)
        self._check_length(tree["body"])
        comment.body = tree["body"]
        return 200, self._comment_tree(comment)

    def _delete_comment(self, number: str, arguments: Any, tree: Any) -> tuple[int, Any]:
        del self.comments[self._own_comment(number).id]
        return 204, None

    def _own_comment(self, number: str) -> Comment:
        if int(number) not in self.comments:
            raise ApiError(404, "Not Found")
        return self.comments[int(number)]

    @staticmethod
    def _check_length(body: str) -> None:
        if len(body) > MAX_COMMENT:
            raise ApiError(422, f"body is too long (maximum is {MAX_COMMENT} characters)")

    def _comment_tree(self, comment: Comment) -> Any:
        tree = self._sample("post", REPO + "/issues/{issue_number}/comments", 201)
        user = self._sampler.sample({"$ref": "#/components/schemas/simple-user"})
        return {
            **tree,
            "id": comment.id,
            "body": comment.body,
            "url": f"{self._here}/issues/comments/{comment.id}",
            "html_url": f"{self.url}/{self.repository}/pull/{comment.issue}#issuecomment-{comment.id}",
            "user": {**user, "login": comment.login, "type": comment.type, "url": f"{self.url}/users/{comment.login}"},
        }

    # -- check runs --------------------------------------------------------------------------------------------------

    def _create_run(self, arguments: Any, tree: Any) -> tuple[int, Any]:
        self._next += 1
        run = Run(id=self._next, name=tree["name"], head_sha=tree["head_sha"])
        self.runs[run.id] = run
        return 201, self._change(run, tree)

    def _edit_run(self, number: str, arguments: Any, tree: Any) -> tuple[int, Any]:
        if int(number) not in self.runs:
            raise ApiError(404, "Not Found")
        return 200, self._change(self.runs[int(number)], tree)

    def _list_runs(self, ref: str, arguments: dict[str, str], tree: Any) -> tuple[int, Any]:
        name = arguments.get("check_name")
        runs = [run for run in self.runs.values() if run.head_sha == ref and name in (None, run.name)]
        if arguments.get("filter", "latest") == "latest":
            runs = list({run.name: run for run in runs}.values())
        return 200, {"total_count": len(runs), "check_runs": [self._run_tree(run) for run in runs]}

    def _change(self, run: Run, tree: dict[str, Any]) -> Any:
        annotations = tree.get("output", {}).pop("annotations", [])
        if len(annotations) > MAX_ANNOTATIONS:
            raise ApiError(422, f"annotations exceeds a maximum quantity of {MAX_ANNOTATIONS}")
        run.annotations += annotations
        for name in ("status", "conclusion", "external_id", "details_url", "output"):
            if name in tree:
                setattr(run, name, tree[name])
        if "conclusion" in tree:
            run.status = "completed"
        if "status" in tree or "conclusion" in tree:
            run.history.append((run.status, run.conclusion))
        return self._run_tree(run)

    def _run_tree(self, run: Run) -> Any:
        tree = self._sample("post", REPO + "/check-runs", 201)
        url = f"{self._here}/check-runs/{run.id}"
        output = {"title": None, "summary": None, "text": None, **run.output}
        return {
            **tree,
            "id": run.id,
            "name": run.name,
            "head_sha": run.head_sha,
            "status": run.status,
            "conclusion": run.conclusion,
            "external_id": run.external_id,
            "url": url,
            "output": {**output, "annotations_count": len(run.annotations), "annotations_url": f"{url}/annotations"},
            # Documented as nullable, yet GitHub always names one and PyGithub needs it.
            "check_suite": {"id": 1},
            "pull_requests": [],
        }

    # -- commits, from a real repository -----------------------------------------------------------------------------

    def _compare(self, basehead: str, arguments: Any, tree: Any) -> tuple[int, Any]:
        base, _, head = basehead.partition("...")
        merge_base = self._git("merge-base", base, head).decode().strip()
        answer = self._sample("get", REPO + "/compare/{basehead}", 200)
        answer["merge_base_commit"] = {**answer["merge_base_commit"], "sha": merge_base}
        return 200, answer

    def _tree(self, sha: str, arguments: Any, tree: Any) -> tuple[int, Any]:
        entries = []
        for line in filter(None, self._git("ls-tree", "-z", sha).decode().split("\0")):
            facts, name = line.split("\t")
            mode, kind, blob = facts.split()
            entries.append(
                {"path": name, "mode": mode, "type": kind, "sha": blob, "url": f"{self._here}/git/blobs/{blob}"}
            )
        answer = self._sample("get", REPO + "/git/trees/{tree_sha}", 200)
        return 200, {**answer, "sha": sha, "url": f"{self._here}/git/trees/{sha}", "truncated": False, "tree": entries}

    def _blob(self, sha: str, arguments: Any, tree: Any) -> tuple[int, Any]:
        content = self._git("cat-file", "blob", sha)
        answer = self._sample("get", REPO + "/git/blobs/{file_sha}", 200)
        encoded = base64.encodebytes(content).decode()
        url = f"{self._here}/git/blobs/{sha}"
        return 200, {**answer, "sha": sha, "size": len(content), "encoding": "base64", "content": encoded, "url": url}

    def _git(self, *arguments: str) -> bytes:
        if self.git is None:
            raise ApiError(404, "Not Found")
        done = subprocess.run(["git", "-C", str(self.git), *arguments], check=False, capture_output=True)
        if done.returncode:
            raise ApiError(404, f"Not Found: {done.stderr.decode(errors='replace')[:200]}")
        return done.stdout

    @property
    def _here(self) -> str:
        return f"{self.url}/repos/{self.repository}"


def _message(text: str) -> dict[str, str]:
    return {"message": text, "documentation_url": "https://docs.github.com/rest"}


def _handler(stand_in: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # header and body in one packet; else each answer waits for a delayed acknowledgement

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            status, tree, more = stand_in.serve(self.command, self.path, body, self.headers)
            content = b"" if tree is None else json.dumps(tree).encode()
            self.send_response(status)
            for name, value in {
                "Content-Type": "application/json",
                "Content-Length": str(len(content)),
                **more,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _answer  # noqa: N815

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the base class's name
            """Nothing: pytest's output is for results."""

    return Handler
