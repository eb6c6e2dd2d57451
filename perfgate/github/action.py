"""Floor 3, github. The program that ``action.yml`` starts: inputs in the environment in, ``perfgate COMMAND`` out.

Started by path, with any Python from 3.7 on and the standard library only, never imported by the package. It finds a
Python of at least 3.11, makes a private virtual environment for perfgate's core (so that the packages of the user's
interpreter stay as they are), and becomes ``perfgate COMMAND`` in it. The worker's Python is the input ``python``, or
the one on ``PATH``.

The environment is built aside and renamed into place, so that it exists whole or not at all, and two jobs may build it
at once. On a hosted runner it is kept in the tool cache. On a self-hosted runner it lives in the job's own temporary
folder unless ``PERFGATE_CORE_CACHE`` names another: a folder that outlives the job can be changed by one pull request's
code before the next one runs it. ``PERFGATE_CORE_PYTHON`` names the Python of an environment that is there already.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

OLDEST = (3, 11)
_REVISIONS = ("base", "head", "config", "python")
_OPTIONS = {
    "measure": _REVISIONS,
    "run": (*_REVISIONS, "template"),
    "publish": ("measure-result", "comment-mode", "config", "template"),
}
COMMANDS = tuple(sorted(_OPTIONS))
COMPLETE = "perfgate-complete"
_NAMES = ("python3", "python", "python3.14", "python3.13", "python3.12", "python3.11")
# What the built package is made of; anything else in the action's folder may change without a new environment.
_DATA = ("perfgate/**/*.json", "perfgate/**/*.toml", "perfgate/**/*.csv")
_SOURCES = ("pyproject.toml", "README.md", "perfgate/**/*.py", *_DATA, "templates/**/*")


class LauncherError(Exception):
    """One line for the user."""


def main() -> int:
    """Exit code 2 with one ``::error`` line, or no return at all: the process has become perfgate."""
    try:
        environ = dict(os.environ)
        action = Path(environ.get("GITHUB_ACTION_PATH") or Path(__file__).resolve().parents[2])
        arguments = command_line(environ)
        core = core_python(environ, action)
        # PYTHON* variables and the current folder belong to the pull request: neither may lead into the core.
        line = [str(core), "-I", "-X", "utf8", "-m", "perfgate", *arguments]
        os.execve(line[0], line, environ)  # noqa: S606 - no shell is the point
    except LauncherError as error:
        say("::error title=perfgate::" + escape(str(error)))
    except OSError as error:
        say("::error title=perfgate::" + escape(f"cannot start perfgate's core ({error}); re-run the job"))
    return 2


def command_line(environ: dict[str, str]) -> list[str]:
    """Arguments for perfgate from the action's inputs; an empty input counts as not given."""
    command = environ.get("INPUT_COMMAND", "")
    if command not in COMMANDS:
        msg = f"input command: {command!r} is none of {', '.join(COMMANDS)}"
        raise LauncherError(msg)
    out = environ.get("INPUT_OUT") or "perfgate-out"
    options = {"out": out}
    if command == "publish":
        options["measurements"] = environ.get("INPUT_MEASUREMENTS") or str(Path(out) / "measurements.json")
    names = _OPTIONS[command]
    options.update({name: environ.get("INPUT_" + name.upper().replace("-", "_"), "") for name in names})
    # As one word, so that a value that begins with a dash stays a value.
    return [command, *(f"--{name}={value}" for name, value in options.items() if value)]


def core_python(environ: dict[str, str], action: Path) -> Path:
    """The interpreter of an environment that holds perfgate; built first if there is none."""
    given = environ.get("PERFGATE_CORE_PYTHON")
    if given:
        path = shutil.which(given)
        if path is None:
            msg = f"PERFGATE_CORE_PYTHON: {given} is no program; name the Python of an environment with perfgate"
            raise LauncherError(msg)
        # Not resolved: the symbolic link is what makes it that environment's Python.
        return Path(path)
    python, version = find_python(environ)
    extras = environ.get("INPUT_EXTRAS", "")
    if not re.fullmatch(r"[a-z0-9,]*", extras):
        msg = f"input extras: {extras!r} is no list of extras; write for example nvml,postgres"
        raise LauncherError(msg)
    name = f"perfgate-core-{source_key(action, extras)}-py{version[0]}.{version[1]}"
    final = cache_root(environ) / name
    if not (final / COMPLETE).is_file():
        build(python, f"{action}[{extras}]" if extras else str(action), final, environ)
    return final / "bin" / "python"


def find_python(environ: dict[str, str]) -> tuple[str, tuple[int, int]]:
    """A Python of at least 3.11: this one, one on PATH, or one in the runner's tool cache, in this order."""
    candidates = [sys.executable or ""]
    candidates += [shutil.which(name, path=environ.get("PATH")) or "" for name in _NAMES]
    cache = environ.get("RUNNER_TOOL_CACHE", "")
    if cache:
        candidates += sorted((str(path) for path in Path(cache).glob("Python/3.*/*/bin/python3")), reverse=True)
    seen = []
    for candidate in dict.fromkeys(filter(None, candidates)):
        version = version_of(candidate)
        if version is not None and version >= OLDEST:
            return candidate, version
        seen.append(f"{candidate} ({'.'.join(map(str, version)) if version else 'does not start'})")
    msg = (
        f"no Python of at least {OLDEST[0]}.{OLDEST[1]} for perfgate itself: found {', '.join(seen) or 'none'}. Put "
        "actions/setup-python with python-version: '3.12' before this step, and name the models' own interpreter in "
        "the input `python`"
    )
    raise LauncherError(msg)


def version_of(python: str) -> tuple[int, int] | None:
    """Major and minor version, None if the program does not answer as a Python does."""
    line = [python, "-I", "-S", "-c", "import sys; print(*sys.version_info[:2])"]
    try:
        done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, check=True)
        major, minor = done.stdout.split()
        return int(major), int(minor)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def cache_root(environ: dict[str, str]) -> Path:
    """The folder that environments are built in, made if need be."""
    hosted = environ.get("RUNNER_ENVIRONMENT") == "github-hosted"
    root = (
        environ.get("PERFGATE_CORE_CACHE")
        or (hosted and environ.get("RUNNER_TOOL_CACHE"))
        or environ.get("RUNNER_TEMP")
    )
    if not root:
        msg = "RUNNER_TEMP is not set: start this through action.yml, inside GitHub Actions"
        raise LauncherError(msg)
    path = Path(root).resolve()
    path.mkdir(parents=True, exist_ok=True)
    return path


def source_key(action: Path, extras: str = "") -> str:
    """Changes with every change of the package: a version number alone is the same for many commits."""
    digest = hashlib.sha256(extras.encode("utf-8"))
    files = sorted({path for pattern in _SOURCES for path in action.glob(pattern) if path.is_file()})
    if not files:
        msg = f"{action} holds no perfgate; GITHUB_ACTION_PATH must be the folder of action.yml"
        raise LauncherError(msg)
    for path in files:
        content = path.read_bytes()
        digest.update(f"\0{path.relative_to(action).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def build(python: str, target: str, final: Path, environ: dict[str, str]) -> None:
    """Make the environment ``final``: aside, then renamed. Whoever comes second throws its own away."""
    aside = final.with_name(f"{final.name}.{uuid.uuid4().hex[:8]}")
    # The user's settings for pip (PIP_*) stay; Python's own variables could lead into the user's packages.
    clean = {name: value for name, value in environ.items() if not name.startswith("PYTHON") and name != "INPUT_TOKEN"}
    pip = [str(aside / "bin" / "python"), "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip += ["--no-input", *shlex.split(environ.get("PERFGATE_PIP_ARGS", "")), target]
    say("::group::perfgate: making a private environment for the core")
    try:
        step([python, "-I", "-m", "venv", str(aside)], clean, "install the venv module (Debian: python3-venv)")
        step(pip, clean, "check the package index; PERFGATE_PIP_ARGS adds options for pip")
        (aside / COMPLETE).write_text(target + "\n", encoding="utf-8")
        if final.exists() and not (final / COMPLETE).is_file():
            # Not made by us, since ours appear complete; kept, as it may be somebody's.
            final.rename(f"{aside}.found")
        try:
            aside.rename(final)
        except OSError:
            if not (final / COMPLETE).is_file():
                raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        say("::endgroup::")


def step(line: list[str], environ: dict[str, str], remedy: str) -> None:
    """Run one program of the build, its output in the log; LauncherError with the remedy if it fails."""
    code = subprocess.run(line, env=environ, stdin=subprocess.DEVNULL, check=False).returncode
    if code:
        msg = f"{' '.join(line[:4])} ended with {code}; {remedy}"
        raise LauncherError(msg)


def escape(text: str) -> str:
    """``text`` as the message of a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def say(text: str) -> None:
    """One line into the job's log, at once: what comes after may be another program's output."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
