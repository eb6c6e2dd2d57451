"""Room ``store``: the reviewed text files of a ``baselines/`` folder, read and checked.

In: the folder. Out: its records, or every problem found. :mod:`perfgate.store.export` writes it.
``baselines/README.md`` describes the format for people::

    environments/<hardware_id>.json   the machine, and each set of software that records there used
    <hardware_id>/<model_key>.json    the model's records, one for each workload

What all records of a file share stands once, under ``common``, and what the machine's card says is
not repeated. So records are whole and files small.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from perfgate import wire
from perfgate.errors import StoreError
from perfgate.records.baseline import NAMESPACE_BASE, BaselineRecord
from perfgate.store.contract import BaselineStore
from perfgate.store.identity import short_hash
from perfgate.store.valid import check as check_record

FORMAT = 1
MAX_BYTES = 20_000
ENVIRONMENTS = "environments"
README = "README.md"
# Fields of a record that do not stand in the records of a file: its head or the card gives them.
ELSEWHERE = ("model_key", "hardware_id", "hardware", "software")

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """``environments/<hardware_id>.json``. ``software`` maps each ``software_id`` to its facts."""

    format: int
    hardware_id: str
    hardware: dict[str, str]
    software: dict[str, dict[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """``<hardware_id>/<model_key>.json``. Each of ``records``, laid over ``common``, is one record's fields."""

    format: int
    hardware_id: str
    model_key: str
    common: dict[str, object]
    records: tuple[dict[str, object], ...]


def read(folder: str | Path) -> tuple[BaselineRecord, ...]:
    """All records of a ``baselines/`` folder, in order of file name. Raises StoreError with every problem found."""
    records, problems = _load(Path(folder))
    if problems:
        problems.append("nothing was read; correct these files or restore them from git")
        raise StoreError("\n".join(problems))
    return tuple(records)


def check(folder: str | Path) -> tuple[str, ...]:
    """Every problem of a ``baselines/`` folder, one line each; empty: all is well.

    Found are unknown fields, formats and files, wrong sizes, places and names, records that a store would
    refuse or that are no baselines, cards without records, records without a card, software that does
    not have the id it stands under, and a workload that is recorded twice.
    """
    return tuple(_load(Path(folder))[1])


def import_files(store: BaselineStore, folder: str | Path) -> tuple[str, ...]:
    """Record all of a ``baselines/`` folder in ``store``, all or nothing; the ids, in the order of :func:`read`.

    Importing again adds nothing. Raises StoreError as :func:`read` and the store do.
    """
    return store.record(read(folder))


def file_name(key: str) -> str:
    """``key`` as one plain, visible file name: all but letters, digits and ``_.-~`` percent-encoded."""
    name = quote(key, safe="")
    return f"%2E{name[1:]}" if name.startswith(".") else name


def _load(folder: Path) -> tuple[list[BaselineRecord], list[str]]:
    records: list[BaselineRecord] = []
    problems: list[str] = []
    cards: dict[str, Card] = {}
    card_paths, model_paths = _paths(folder, problems)
    for path in card_paths:
        try:
            card = _card(path)
            cards[card.hardware_id] = card
        except StoreError as error:
            problems.append(str(error))
    for path in model_paths:
        try:
            records += _records(path, cards)
        except StoreError as error:
            problems.append(str(error))
    # A file that could not be read may be the one that uses a card, so these would mislead beside others.
    return records, problems or _unused(folder, cards, records)


def _paths(folder: Path, problems: list[str]) -> tuple[list[Path], list[Path]]:
    """Cards and model files, sorted; whatever else lies there is a problem."""
    cards: list[Path] = []
    models: list[Path] = []
    if not folder.is_dir():
        problems.append(f"{folder}: no such folder; export a run into it first")
    for path in sorted(path for path in folder.rglob("*") if not path.is_dir()):
        parts = path.relative_to(folder).parts
        if path.suffix == ".json" and len(parts) == 2:
            (cards if parts[0] == ENVIRONMENTS else models).append(path)
        elif parts != (README,):
            problems.append(f"{path}: not part of a baselines folder; move it elsewhere")
    return cards, models


def _unused(folder: Path, cards: dict[str, Card], records: list[BaselineRecord]) -> list[str]:
    problems = []
    for hardware_id, card in cards.items():
        used = {record.software_id for record in records if record.hardware_id == hardware_id}
        where = folder / ENVIRONMENTS / f"{file_name(hardware_id)}.json"
        if not used:
            problems.append(f"{where}: no record was made on this machine; delete the file")
            continue
        problems += [f"{where}: software.{name}: no record uses it; delete it" for name in set(card.software) - used]
    return sorted(problems)


def _parse(path: Path, cls: type[T]) -> T:
    try:
        data = path.read_bytes()
        if len(data) > MAX_BYTES:
            msg = f"{path}: {len(data)} bytes, the limit is {MAX_BYTES}; export it with fewer samples or workloads"
            raise StoreError(msg)
        return wire.loads(cls, data.decode("utf-8"))
    except OSError as error:
        msg = f"{path}: cannot be read ({error.strerror})"
        raise StoreError(msg) from error
    except ValueError as error:
        msg = f"{path}: {error}"
        raise StoreError(msg) from error


def _card(path: Path) -> Card:
    card = _parse(path, Card)
    _expect_format(path, card.format)
    if path.stem != file_name(card.hardware_id):
        msg = f"{path}: hardware_id: {card.hardware_id!r} belongs into {file_name(card.hardware_id)}.json"
        raise StoreError(msg)
    for name, facts in card.software.items():
        if short_hash(facts) != name:
            msg = f"{path}: software.{name}: these facts have the id {short_hash(facts)}; export the run again"
            raise StoreError(msg)
    return card


def _records(path: Path, cards: dict[str, Card]) -> list[BaselineRecord]:
    file = _parse(path, ModelFile)
    _expect_format(path, file.format)
    wanted = (file_name(file.hardware_id), file_name(file.model_key))
    if (path.parent.name, path.stem) != wanted:
        msg = f"{path}: hardware_id, model_key: these belong into {'/'.join(wanted)}.json"
        raise StoreError(msg)
    card = cards.get(file.hardware_id)
    if card is None:
        msg = f"{path}: hardware_id: {ENVIRONMENTS}/{wanted[0]}.json is missing or wrong; export the run again"
        raise StoreError(msg)
    tree = wire.to_tree(file)
    records = [
        _record(f"{path}: records[{index}]", {**tree["common"], **fields}, file, card)
        for index, fields in enumerate(tree["records"])
    ]
    keys = [record.workload.key for record in records]
    for key in keys:
        if keys.count(key) > 1:
            msg = f"{path}: records: {key} is there twice; keep one"
            raise StoreError(msg)
    return records


def _record(where: str, fields: dict[str, Any], file: ModelFile, card: Card) -> BaselineRecord:
    for name in ELSEWHERE:
        if name in fields:
            msg = f"{where}: {name}: stands at the head of the file or in {ENVIRONMENTS}/; delete it here"
            raise StoreError(msg)
    software = card.software.get(str(fields.get("software_id")))
    if software is None:
        msg = f"{where}: software_id: the machine's card does not know it; export the run again"
        raise StoreError(msg)
    fields |= {"model_key": file.model_key, "hardware_id": file.hardware_id}
    fields |= {"hardware": dict(card.hardware), "software": dict(software)}
    try:
        record = wire.from_tree(BaselineRecord, fields)
        check_record(record)
    except (wire.WireError, StoreError) as error:
        msg = f"{where}: {error}"
        raise StoreError(msg) from error
    if record.namespace != NAMESPACE_BASE:
        msg = f"{where}: namespace: {record.namespace!r} is no baseline; only {NAMESPACE_BASE!r} records stand here"
        raise StoreError(msg)
    return record


def _expect_format(path: Path, found: int) -> None:
    if found != FORMAT:
        msg = f"{path}: format: {found}, and this perfgate reads {FORMAT}; install a newer perfgate"
        raise StoreError(msg)
