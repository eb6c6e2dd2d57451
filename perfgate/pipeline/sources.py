"""Which commits, whose configuration, whose policy: read from git, before anything is checked out.

``[gate]`` comes from base; models, ``setup``, ``python`` and ``pythonpath`` from each side's own
revision. Without a policy on base the head's is used to report only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from perfgate.changes import banners
from perfgate.changes.changed import ChangedFile, changed_files
from perfgate.changes.git import Git
from perfgate.changes.revisions import Revisions, resolve, single
from perfgate.config.load import FILES, Config, load, read_tree
from perfgate.config.values import read_relative
from perfgate.errors import ConfigError, ConfigProblem, UsageError
from perfgate.pipeline.request import CONFIG_FILE, MeasureRequest
from perfgate.records.evidence import Revision
from perfgate.records.policy import REPORT, Policy
from perfgate.records.workload import ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """All that is read before measuring. ``base`` or ``head`` None: no configuration at that revision."""

    git: Git
    revisions: Revisions
    base: Config | None
    head: Config | None
    policy: Policy
    changed: tuple[ChangedFile, ...]
    banners: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def store_url(self) -> str:
        """Where records go: base's word, since head must not choose another database."""
        config = self.base or self.head
        return config.store_url if config else ""

    @property
    def model_names(self) -> tuple[str, ...]:
        """Names on either side, base's order first."""
        names = [*self.specs("base"), *self.specs("head")]
        return tuple(dict.fromkeys(names))

    def specs(self, side: str) -> dict[str, ModelSpec]:
        """Models of ``side``; none without a configuration. Base without one runs head's (report only)."""
        own = self.base if side == "base" else self.head
        config = own or (self.head if side == "base" else None)
        return dict(config.side.models) if config else {}


def read_sources(request: MeasureRequest) -> Sources:
    """Resolve revisions and read both configurations.

    Raises HistoryError, ConfigError (every problem of both sides' files), UsageError.
    """
    _check_place(request.config_file)
    git = Git(request.root)
    if request.base is None:
        head_revision = single(git, request.head)
        revisions = Revisions(base=head_revision, head=head_revision, base_tip=head_revision.sha)
    else:
        revisions = resolve(git, base=request.base, head=request.head, merge_base=request.merge_base)
    head = _load(git, revisions.head, request, "head")
    same = revisions.base.sha == revisions.head.sha
    base = head if same else _load(git, revisions.base, request, "base")
    if request.models:
        _check_names(request, base, head)
        base, head = _only(base, request.models), _only(head, request.models)
    if base is None and head is None:
        raise ConfigError((_no_configuration(git, revisions.head, request.config_file),))
    changed = () if same else changed_files(git, revisions.base.sha, revisions.head.sha)
    recorded = "There is nothing to compare with: the commit was measured against itself and recorded."
    return Sources(
        git=git,
        revisions=revisions,
        base=base,
        head=head,
        policy=_policy(base, head, request),
        changed=changed,
        banners=banners.differences(base, head),
        notes=(recorded,) if request.base is None else (),
    )


def _check_place(config_file: str) -> None:
    """Raise UsageError where ``config_file`` cannot be a path inside of a commit."""
    try:
        read_relative(config_file)
    except ValueError as error:
        msg = f"--config {error}"
        raise UsageError(msg) from None


def _load(git: Git, revision: Revision, request: MeasureRequest, where: str) -> Config | None:
    names = FILES if request.config_file == CONFIG_FILE else (request.config_file,)
    try:
        files = read_tree(lambda path: git.show_file(revision.sha, path), names)
        config = load(files, where=where, sha=revision.sha)
    except ConfigError as error:
        # The same file has two versions: say which one is wrong.
        place = f"at {revision.sha[:7]} ({where})"
        raise ConfigError(tuple(replace(p, file=f"{p.file} {place}") for p in error.problems)) from None
    if config is None:
        return None
    return replace(config, side=replace(config.side, python=request.python)) if request.python else config


def _check_names(request: MeasureRequest, base: Config | None, head: Config | None) -> None:
    """Raise ConfigError for models that neither side has; one that only one side has can be asked for."""
    known = dict.fromkeys(name for config in (base, head) if config for name in config.side.models)
    hint = f"known: {', '.join(known)}" if known else "no model is configured"
    problems = tuple(
        ConfigProblem(file=request.config_file, key=f"models.{name}", reason="no such model", hint=hint)
        for name in dict.fromkeys(request.models)
        if name not in known
    )
    if problems:
        raise ConfigError(problems)


def _only(config: Config | None, names: tuple[str, ...]) -> Config | None:
    if config is None:
        return None
    models = {name: spec for name, spec in config.side.models.items() if name in names}
    return replace(config, side=replace(config.side, models=models))


def _policy(base: Config | None, head: Config | None, request: MeasureRequest) -> Policy:
    if base is not None:
        policy = base.policy
        if request.fixed_pairs is not None:
            policy = replace(policy, looks=(request.fixed_pairs,))
        return replace(policy, mode=REPORT) if request.base is None else policy
    if head is None:
        return Policy(source="defaults", has_base=False, mode=REPORT)
    return replace(head.policy, has_base=False, mode=REPORT)


def _no_configuration(git: Git, head: Revision, config_file: str) -> ConfigProblem:
    hint = 'write one with [models.NAME] entry = "package.module:callable" and commit it, see the README'
    if (git.root / config_file).is_file():
        hint = f"{config_file} is in the working tree: commit it, since the gate reads committed files"
    reason = f"no perfgate configuration at {head.sha[:7]}, neither {CONFIG_FILE} nor [tool.perfgate] in pyproject.toml"
    return ConfigProblem(file=config_file, key="(file)", reason=reason, hint=hint)
