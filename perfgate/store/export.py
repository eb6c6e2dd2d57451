"""Room ``store``: records become the reviewed text files of a ``baselines/`` folder.

In: records and the folder. Out: files changed. :mod:`perfgate.store.jsonfiles` has the format and
reads it back.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from perfgate import wire
from perfgate.errors import StoreError
from perfgate.records.baseline import NAMESPACE_BASE, BaselineRecord
from perfgate.store import jsonfiles
from perfgate.store.contract import BaselineStore
from perfgate.store.identity import canonical, sparse
from perfgate.store.valid import MAX_SAMPLES, NAMESPACE_LOCAL, cap_samples, check


def export_files(store: BaselineStore, folder: str | Path, *, samples: int = MAX_SAMPLES) -> tuple[Path, ...]:
    """Write the newest baseline of each workload and machine in ``store``; see :func:`write`."""
    return write(store.newest(), folder, samples=samples)


def write(records: Iterable[BaselineRecord], folder: str | Path, *, samples: int = MAX_SAMPLES) -> tuple[Path, ...]:
    """Put ``records`` into a ``baselines/`` folder and return the files that changed.

    A record replaces the one of the same machine, model and workload; others stay. Records of the
    namespace ``local`` become ``base``: the review of the files is what makes them baselines.
    ``samples`` (1 to 64) caps the raw samples of each metric further, which makes another record of it.

    Raises:
        StoreError: With nothing written: a record of a pull request, one machine with two
            descriptions, a file over the size limit, or a folder that is wrong already. With a
            remedy: a file could not be written.
    """
    root = Path(folder)
    promoted = [_promoted(record, samples) for record in records]
    try:
        root.mkdir(parents=True, exist_ok=True)
        kept = {_place(record): record for record in jsonfiles.read(root)}
        kept |= {_place(record): record for record in promoted}
        texts = _texts(root, [kept[place] for place in sorted(kept)])
        changed = [path for path, text in texts.items() if not _holds(path, text)]
        for path in changed:
            _replace(path, texts[path])
    except OSError as error:
        msg = f"{error.filename or root}: cannot be written ({error.strerror}); make room or the folder writable"
        raise StoreError(msg) from error
    return tuple(changed)


def _place(record: BaselineRecord) -> tuple[str, str, str]:
    return record.hardware_id, record.model_key, record.workload.key


def _promoted(record: BaselineRecord, samples: int) -> BaselineRecord:
    if record.namespace not in (NAMESPACE_BASE, NAMESPACE_LOCAL):
        msg = (
            f"{record.workload.key} of {record.namespace}: only a run on the default branch or on your own machine "
            "can become a baseline; merge first"
        )
        raise StoreError(msg)
    capped = {name: cap_samples(values, min(samples, MAX_SAMPLES)) for name, values in record.samples.items()}
    result = dataclasses.replace(record, namespace=NAMESPACE_BASE, samples=capped)
    check(result)
    return result


def _texts(root: Path, records: Sequence[BaselineRecord]) -> dict[Path, str]:
    """Text of every file that holds one of ``records``, or describes its machine."""
    texts: dict[Path, str] = {}
    for hardware_id in dict.fromkeys(record.hardware_id for record in records):
        here = [record for record in records if record.hardware_id == hardware_id]
        name = jsonfiles.file_name(hardware_id)
        texts[root / jsonfiles.ENVIRONMENTS / f"{name}.json"] = _layout(wire.to_tree(_card(here)))
        for model_key in dict.fromkeys(record.model_key for record in here):
            path = root / name / f"{jsonfiles.file_name(model_key)}.json"
            texts[path] = _layout(wire.to_tree(_model_file([r for r in here if r.model_key == model_key])))
    for path, text in texts.items():
        size = len(text.encode("utf-8"))
        if size > jsonfiles.MAX_BYTES:
            msg = (
                f"{path}: would hold {size} bytes, the limit is {jsonfiles.MAX_BYTES}; "
                "export fewer workloads, or fewer samples (samples=16); nothing was written"
            )
            raise StoreError(msg)
    return texts


def _card(records: Sequence[BaselineRecord]) -> jsonfiles.Card:
    first = records[0]
    for record in records:
        if record.hardware != first.hardware:
            msg = (
                f"hardware_id {first.hardware_id}: described in two ways, by the runs {first.run_nonce} and "
                f"{record.run_nonce}; export again all of its models, measured by one release; nothing was written"
            )
            raise StoreError(msg)
    software = {record.software_id: record.software for record in records}
    return jsonfiles.Card(
        format=jsonfiles.FORMAT, hardware_id=first.hardware_id, hardware=first.hardware, software=software
    )


def _model_file(records: Sequence[BaselineRecord]) -> jsonfiles.ModelFile:
    trees = []
    for record in records:
        canonical(record)  # refuses what has no JSON form, naming the record
        tree = sparse(record)
        trees.append({name: value for name, value in tree.items() if name not in jsonfiles.ELSEWHERE})
    common = {
        name: value
        for name, value in trees[0].items()
        # Even if there is only one, its workload and numbers stand in the record, so that files look alike.
        if name not in ("workload", "metrics", "samples") and all(_same(tree, name, value) for tree in trees)
    }
    return jsonfiles.ModelFile(
        format=jsonfiles.FORMAT,
        hardware_id=records[0].hardware_id,
        model_key=records[0].model_key,
        common=common,
        records=tuple({name: value for name, value in tree.items() if name not in common} for tree in trees),
    )


def _same(tree: dict[str, Any], name: str, value: object) -> bool:
    # As text, because Python takes 1, 1.0 and True for equal.
    return name in tree and json.dumps(tree[name], sort_keys=True) == json.dumps(value, sort_keys=True)


def _layout(tree: Any) -> str:
    return _lines(tree, "") + "\n"


def _lines(tree: Any, indent: str) -> str:
    """JSON with sorted keys, objects over several lines, and a list of plain values in one: a diff can be read."""
    deeper = indent + "  "
    if isinstance(tree, dict) and tree:
        items = [f"{deeper}{json.dumps(key)}: {_lines(tree[key], deeper)}" for key in sorted(tree)]
        return "{\n" + ",\n".join(items) + f"\n{indent}}}"
    if isinstance(tree, list) and any(isinstance(item, (dict, list)) for item in tree):
        return "[\n" + ",\n".join(deeper + _lines(item, deeper) for item in tree) + f"\n{indent}]"
    return json.dumps(tree, allow_nan=False)


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_bytes() == text.encode("utf-8")


def _replace(path: Path, text: str) -> None:
    """Whole or not at all, for a reader and after a crash."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8", newline="\n")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
