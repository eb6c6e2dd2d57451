"""Files: what is read of them, what is refused."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from onnx import ModelProto, TensorProto, helper

from perfgate.errors import UsageError
from perfgate.graph.onnx import lean, read
from tests.graph.onnx.models import FLOAT, counted, flop, ints, model, node, save, traced, value, weight


def external(name, shape, location, offset=0, length=None, element=FLOAT):
    tensor = TensorProto(name=name, data_type=element, dims=shape, data_location=TensorProto.EXTERNAL)
    fields = {"location": location, "offset": offset, "length": length}
    for key, item in fields.items():
        if item is not None:
            tensor.external_data.add(key=key, value=str(item))
    return tensor


def linear(initializer, rows=1, columns=4):
    return model([node("MatMul", "x w", "y")], [value("x", [rows, columns])], [value("y", None)], [initializer])


def test_external_data__over_two_gibibytes_takes_little_memory(tmp_path):
    columns = 2_200_000_000 // (4 * 1024)
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(columns * 1024 * 4)
    path = save(linear(external("w", [1024, columns], "w.bin"), 1, 1024), tmp_path)
    script = (
        "import sys; from pathlib import Path; from perfgate.graph.onnx.read import trace; "
        "t = trace(Path(sys.argv[1])); print(t.weight_bytes, t.parameters)"
    )

    def limited():
        resource.setrlimit(resource.RLIMIT_DATA, (600 * 2**20, 600 * 2**20))

    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False, preexec_fn=limited
    )

    assert done.stderr == ""
    assert done.stdout.split() == [str(columns * 1024 * 4), str(columns * 1024)]


def test_external_data__missing_file_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"m\.onnx: its data file 'w\.bin' is missing; put it beside"):
        traced(linear(external("w", [4, 8], "w.bin")), tmp_path)


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_file__folders_and_pipes_are_no_files(tmp_path, make):
    make(tmp_path / "w.bin")
    with pytest.raises(UsageError, match=r"its data file 'w\.bin' is no plain file"):
        traced(linear(external("w", [4, 8], "w.bin")), tmp_path)

    make(tmp_path / "other.onnx")
    with pytest.raises(UsageError, match=r"other\.onnx: is no plain file"):
        read.trace(tmp_path / "other.onnx")


@pytest.mark.parametrize("location", ["../w.bin", "sub/../../w.bin", "/etc/passwd", "C:\\w.bin", "..\\w.bin", ""])
def test_external_data__outside_of_the_folder_is_refused(tmp_path, location):
    (tmp_path / "w.bin").write_bytes(bytes(128))
    folder = tmp_path / "models"
    folder.mkdir()

    with pytest.raises(UsageError, match="which is not in the model's own folder; put the data file beside"):
        traced(linear(external("w", [4, 8], location)), folder)


def test_external_data__link_that_leaves_the_folder_is_refused(tmp_path):
    (tmp_path / "outside.bin").write_bytes(bytes(128))
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "w.bin").symlink_to(tmp_path / "outside.bin")

    with pytest.raises(UsageError, match="not in the model's own folder"):
        traced(linear(external("w", [4, 8], "w.bin")), folder)


def test_external_data__link_within_the_folder_is_followed(tmp_path):
    (tmp_path / "real.bin").write_bytes(bytes(128))
    (tmp_path / "w.bin").symlink_to("real.bin")

    assert flop(traced(linear(external("w", [4, 8], "w.bin")), tmp_path)) == 2 * 4 * 8


def test_external_data__too_short_is_named(tmp_path):
    (tmp_path / "w.bin").write_bytes(bytes(127))

    with pytest.raises(UsageError, match=r"data file 'w\.bin' is too short for tensor 'w'"):
        traced(linear(external("w", [4, 8], "w.bin")), tmp_path)


def test_external_data__git_lfs_pointer_is_said(tmp_path):
    (tmp_path / "w.bin").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 128\n")

    with pytest.raises(UsageError, match=r"w\.bin: is a Git LFS pointer.*git lfs pull"):
        traced(linear(external("w", [400, 8], "w.bin"), columns=400), tmp_path)


@pytest.mark.parametrize(("offset", "length"), [(-1, 128), (0, 1), ("x", 128)])
def test_external_data__impossible_place_is_refused(tmp_path, offset, length):
    (tmp_path / "w.bin").write_bytes(bytes(128))

    with pytest.raises(UsageError, match=r"states no place in .* that can hold it"):
        traced(linear(external("w", [4, 8], "w.bin", offset, length)), tmp_path)


def test_external_data__small_tensors_are_read_for_their_values(tmp_path):
    shape = (2).to_bytes(8, "little") + (3).to_bytes(8, "little")
    (tmp_path / "s.bin").write_bytes(bytes(16) + shape)
    proto = model(
        [node("Reshape", "x s", "r"), node("MatMul", "r w", "y")],
        [value("x", [6])],
        [value("y", None)],
        [external("s", [2], "s.bin", 16, element=TensorProto.INT64), weight("w", [3, 5])],
    )

    assert flop(traced(proto, tmp_path)) == 2 * 2 * 3 * 5


def test_external_data__tied_weights_count_once(tmp_path):
    def tied(size):
        return model(
            [node("MatMul", "x a", "m"), node("MatMul", "m b", "y")],
            [value("x", [1, size])],
            [value("y", None)],
            [external(name, [size, size], "w.bin") for name in "ab"],
        )

    (tmp_path / "w.bin").write_bytes(bytes(128 * 128 * 4))
    for size in (4, 128):
        trace = traced(tied(size), tmp_path)
        assert (trace.parameters, trace.weight_bytes) == (size * size, size * size * 4)


def test_file__missing(tmp_path):
    with pytest.raises(UsageError, match=r"nothing\.onnx: there is no such file"):
        read.trace(tmp_path / "nothing.onnx")


@pytest.mark.parametrize(
    "contents", [b"", b"\x00", b"hello world, this is no model", b"\x3a\xff\xff\xff\xff\x0f", b"\x08\x07"]
)
def test_file__no_model(tmp_path, contents):
    (tmp_path / "m.onnx").write_bytes(contents)

    with pytest.raises(UsageError, match=r"m\.onnx: is no ONNX model or is cut off"):
        read.trace(tmp_path / "m.onnx")


def test_file__cut_off_anywhere_is_one_error(tmp_path):
    whole = linear(weight("w", [4, 8])).SerializeToString()

    for length in range(len(whole)):
        (tmp_path / "m.onnx").write_bytes(whole[:length])
        with pytest.raises(UsageError, match=r"m\.onnx: "):
            read.trace(tmp_path / "m.onnx")


def test_file__git_lfs_pointer(tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")

    with pytest.raises(UsageError, match="is a Git LFS pointer"):
        read.trace(tmp_path / "m.onnx")


def test_file__larger_than_the_format_allows(tmp_path):
    with (tmp_path / "m.onnx").open("wb") as file:
        file.truncate(2**31 + 10)

    with pytest.raises(UsageError, match=r"more than an ONNX file can have.*data file"):
        read.trace(tmp_path / "m.onnx")


def test_root__relative_paths_start_there_and_none_leaves_it(tmp_path):
    root = tmp_path / "checkout"
    root.mkdir()
    save(linear(weight("w", [4, 8])), root)
    save(linear(weight("w", [4, 8])), tmp_path, "outside.onnx")
    (root / "link.onnx").symlink_to(tmp_path / "outside.onnx")

    assert flop(read.trace(Path("m.onnx"), root=root)) == 64
    for path in ("link.onnx", "../outside.onnx", str(tmp_path / "outside.onnx")):
        with pytest.raises(UsageError, match="lies outside of"):
            read.trace(Path(path), root=root)


def test_lean__large_contents_are_left_out_and_all_else_stays(tmp_path):
    proto = model(
        [node("MatMul", "x w", "m"), node("Reshape", "m s", "y")],
        [value("x", [1, 300])],
        [value("y", None)],
        [weight("w", [300, 200]), ints("s", 2, 100)],
    )
    whole = proto.SerializeToString()

    small = lean.without_weights(whole)

    assert len(small) < 1000 < len(whole)
    left = ModelProto.FromString(small)
    assert not left.graph.initializer[0].raw_data
    left.graph.initializer[0].raw_data = proto.graph.initializer[0].raw_data
    assert left == proto


def test_lean__contents_in_subgraphs_and_constants(tmp_path):
    big = weight("v", [300, 200])
    body = helper.make_graph(
        [node("Constant", "", "c", value=big), node("MatMul", "x c", "r")], "b", [], [value("r", None)]
    )
    proto = model(
        [node("If", "p", "y", then_branch=body, else_branch=body)],
        [value("x", [1, 300]), value("p", [], TensorProto.BOOL)],
        [value("y", None)],
    )

    assert len(lean.without_weights(proto.SerializeToString())) < 1000
    assert counted(proto, tmp_path).totals.flop == 2 * 300 * 200


def test_sizes__impossible_ones_are_refused(tmp_path):
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[-4, 8])
    with pytest.raises(UsageError, match=r"tensor 'w' has the impossible sizes \[-4, 8\]"):
        traced(linear(tensor), tmp_path)
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[2**40, 2**40])
    with pytest.raises(UsageError, match="impossible sizes"):
        traced(linear(tensor), tmp_path)
