from __future__ import annotations

import dataclasses
import json
import os
import re
import textwrap
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perfgate import wire
from perfgate.errors import StoreError
from perfgate.store.export import export_files, write
from perfgate.store.identity import record_id, short_hash
from perfgate.store.jsonfiles import MAX_BYTES, check, file_name, import_files, read
from perfgate.store.open import open_store
from tests.store.helpers import RESNET, SOFTWARE, a_record, ci_run, commit, measurements, tree_bytes
from tests.store.strategies import records

TRAIN = dataclasses.replace(RESNET, mode="train")
ROOT = Path(__file__).parents[2]


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two workloads of one model."""
    write([a_record(), a_record(workload=TRAIN, latency=30e6)], tmp_path / "baselines")
    return tmp_path / "baselines"


def test_write__one_card_and_one_file_a_model(folder):
    assert set(tree_bytes(folder)) == {"environments/cpu-1.json", "cpu-1/resnet.json"}
    card = json.loads((folder / "environments/cpu-1.json").read_bytes())
    assert card["format"] == 1
    assert card["software"] == {short_hash(SOFTWARE): SOFTWARE}
    file = json.loads((folder / "cpu-1/resnet.json").read_bytes())
    assert (file["format"], file["model_key"]) == (1, "resnet")
    assert file["common"]["commit"] == commit(1)
    assert [record["workload"]["mode"] for record in file["records"]] == ["infer", "train"]


def test_write__keys_are_sorted_and_samples_stand_in_one_line(folder):
    text = (folder / "cpu-1/resnet.json").read_text(encoding="utf-8")
    keys = re.findall(r'^  "(\w+)":', text, re.MULTILINE)
    assert keys == sorted(keys)
    assert '"latency": [13900000.0, 13900001.0]\n' in text
    assert text.endswith("}\n")


def test_write__again_changes_nothing(folder):
    before = tree_bytes(folder)
    assert write(read(folder), folder) == ()
    assert tree_bytes(folder) == before


def test_write__replaces_one_workload_and_keeps_the_rest(folder):
    newer = a_record(at=2, latency=12e6, software_id=short_hash({}), software={})
    changed = write([newer], folder)
    assert {path.name for path in changed} == {"cpu-1.json", "resnet.json"}
    assert [(found.commit, found.workload.mode) for found in read(folder)] == [
        (commit(2), "infer"),
        (commit(1), "train"),
    ]
    write([dataclasses.replace(newer, workload=TRAIN)], folder)
    assert set(json.loads((folder / "environments/cpu-1.json").read_bytes())["software"]) == {short_hash({})}


def test_write__promotes_a_local_run(tmp_path):
    write([a_record(namespace="local")], tmp_path)
    assert read(tmp_path) == (dataclasses.replace(read(tmp_path)[0], namespace="base"),)


@pytest.mark.parametrize("namespace", ["pr/7", "unmerged"])
def test_write__a_pull_request_never_becomes_a_baseline(tmp_path, namespace):
    with pytest.raises(StoreError, match=f"of {namespace}: only a run on the default branch"):
        write([a_record(), a_record(workload=TRAIN, namespace=namespace)], tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_write__an_uncommitted_tree_is_no_baseline(tmp_path):
    with pytest.raises(StoreError, match="commit is empty"):
        write([a_record(namespace="local", commit="")], tmp_path)


def test_write__one_machine_described_in_two_ways_is_refused(folder):
    before = tree_bytes(folder)
    with pytest.raises(StoreError, match="hardware_id cpu-1: described in two ways, by the runs other and run-1"):
        write([a_record(hardware={"cpu": "changed"}, run_nonce="other")], folder)
    assert tree_bytes(folder) == before


def test_write__over_the_size_limit_says_what_to_do(tmp_path):
    many = [
        a_record(
            workload=dataclasses.replace(RESNET, batch=batch),
            samples={"latency": tuple(1e7 + k + batch for k in range(64))},
        )
        for batch in range(1, 20)
    ]
    with pytest.raises(StoreError, match=r"resnet.json: would hold \d+ bytes, the limit is 20000; export fewer"):
        write(many, tmp_path)
    assert tree_bytes(tmp_path) == {}
    write(many, tmp_path, samples=16)
    assert {len(found.samples["latency"]) for found in read(tmp_path)} == {16}
    assert all(len(content) <= MAX_BYTES for content in tree_bytes(tmp_path).values())


def test_write__does_not_touch_a_folder_that_is_wrong_already(folder):
    edit(folder / "cpu-1/resnet.json", '"format": 1', '"format": 2')
    before = tree_bytes(folder)
    with pytest.raises(StoreError, match="format: 2, and this perfgate reads 1"):
        write([a_record(at=2)], folder)
    assert tree_bytes(folder) == before


def test_write__names_the_file_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(StoreError, match=r"file.* cannot be written"):
        write([a_record()], tmp_path / "file" / "baselines")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(found=st.lists(records(namespaces=("base",)), max_size=3))
def test_read__any_record_comes_back_with_its_identity(tmp_path_factory, found):
    folder = tmp_path_factory.mktemp("baselines")
    write(found, folder)
    last = {(record.hardware_id, record.model_key, record.workload.key): record for record in found}
    assert {record_id(record) for record in read(folder)} == {record_id(record) for record in last.values()}
    assert check(folder) == () or not found


def test_export_files__and_back_into_another_store(tmp_path):
    with open_store("memory:") as store, open_store("memory:") as other:
        store.record([a_record(at=1), a_record(at=2), a_record(at=3, namespace="pr/7"), a_record(hardware_id="gpu-1")])
        export_files(store, tmp_path)
        first = import_files(other, tmp_path)
        assert import_files(other, tmp_path) == first
        assert other.newest() == store.newest()
        assert other.count() == 2


def test_check__nothing_to_say(folder):
    (folder / "README.md").write_text("# Baselines", encoding="utf-8")
    assert check(folder) == ()


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        ("cpu-1/resnet.json", '"files":', '"filez":', r"resnet.json: records\[0\]: filez: unknown key"),
        ("cpu-1/resnet.json", '"common":', '"commons":', "resnet.json: commons: unknown key of ModelFile"),
        ("cpu-1/resnet.json", '"format": 1', '"format": 2', "resnet.json: format: 2, and this perfgate reads 1"),
        ("cpu-1/resnet.json", '"format": 1', '"format": "1"', "resnet.json: format: expected int"),
        ("cpu-1/resnet.json", "13900000.0", "NaN", "resnet.json: .*not a number"),
        ("cpu-1/resnet.json", "{", "{{", "resnet.json: .*not JSON"),
        ("cpu-1/resnet.json", '"train"', '"infer"', "resnet.json: records: resnet/infer/.* is there twice"),
        ("cpu-1/resnet.json", '"namespace": "base"', '"namespace": "pr/7"', "namespace: 'pr/7' is no baseline"),
        ("cpu-1/resnet.json", '"latency": "ns"', '"latency": "us"', "latency is in 'us', but is stored in 'ns'"),
        ("cpu-1/resnet.json", '"model_key": "resnet"', '"model_key": "vgg"', "belong into cpu-1/vgg.json"),
        ("cpu-1/resnet.json", '"attempt": 1', '"hardware": {}', "hardware: stands at the head of the file"),
        ("cpu-1/resnet.json", '"software_id": "', '"software_id": "0', "software_id: the machine's card does not"),
        ("cpu-1/resnet.json", commit(1), "main", "commit 'main' is not a full commit id"),
        ("environments/cpu-1.json", '"2.6.0"', '"2.7.0"', r"cpu-1.json: software.\w+: these facts have the id"),
        ("environments/cpu-1.json", '"hardware_id": "cpu-1"', '"hardware_id": "x"', "'x' belongs into x.json"),
        ("environments/cpu-1.json", '"hardware"', '"hard ware"', "cpu-1.json: hard ware: unknown key of Card"),
    ],
)
def test_check__names_file_and_key(folder, file, old, new, told):
    edit(folder / file, old, new)
    problems = "\n".join(check(folder))
    assert re.search(told, problems), problems
    with pytest.raises(StoreError, match="nothing was read"):
        read(folder)


def test_check__orphans_and_strangers(folder):
    (folder / "environments/cpu-1.json").rename(folder / "environments/cpu-2.json")
    (folder / "store.sqlite").write_bytes(b"")
    (folder / "cpu-1/binary.json").write_bytes(b"\xff\xfe\xfa")
    problems = check(folder)
    assert [Path(problem.split(":")[0]).name for problem in problems] == [
        "store.sqlite",
        "cpu-2.json",
        "binary.json",
        "resnet.json",
    ]
    (folder / "store.sqlite").unlink()
    (folder / "cpu-1/binary.json").unlink()
    (folder / "environments/cpu-2.json").rename(folder / "environments/cpu-1.json")
    (folder / "cpu-1/resnet.json").unlink()
    assert check(folder) == (f"{folder}/environments/cpu-1.json: no record was made on this machine; delete the file",)


def test_check__software_that_nothing_uses(folder):
    edit(folder / "environments/cpu-1.json", '"software": {', f'"software": {{"{short_hash({})}": {{}},')
    assert check(folder) == (
        f"{folder}/environments/cpu-1.json: software.{short_hash({})}: no record uses it; delete it",
    )


def test_check__too_large(folder):
    edit(folder / "cpu-1/resnet.json", "{", "{" + " " * MAX_BYTES)
    assert re.search(r"resnet.json: \d+ bytes, the limit is 20000", check(folder)[0])


def test_check__no_folder(tmp_path):
    assert check(tmp_path / "none") == (f"{tmp_path / 'none'}: no such folder; export a run into it first",)


def test_import_files__all_or_nothing(folder):
    edit(folder / "cpu-1/resnet.json", '"train"', '"infer"')
    with open_store("memory:") as store:
        with pytest.raises(StoreError, match="is there twice"):
            import_files(store, folder)
        assert store.count() == 0


@given(key=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30))
def test_file_name__one_plain_name_for_each_key(key):
    name = file_name(key)
    assert re.fullmatch(r"[A-Za-z0-9_~%-][A-Za-z0-9_.~%-]*", name)
    assert os.path.basename(name) == name
    assert name == key or "%" in name


def test_readme__its_promotion_works_as_written(tmp_path, monkeypatch):
    readme = (ROOT / "baselines/README.md").read_text(encoding="utf-8")
    (snippet,) = re.findall(r"```python\n(.*?) *```", readme, re.DOTALL)
    (tmp_path / "perfgate-out").mkdir()
    text = wire.dumps(measurements(ci=ci_run("push", ref="refs/heads/main")))
    (tmp_path / "perfgate-out/measurements.json").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(compile(textwrap.dedent(snippet), "baselines/README.md", "exec"), {})
    assert {found.commit for found in read(tmp_path / "baselines")} == {commit(2)}


def test_repository__its_own_baselines_are_well_formed():
    folder = ROOT / "baselines"
    assert check(folder) == ()
    for path in folder.rglob("*.json"):
        assert path.stat().st_size <= MAX_BYTES
