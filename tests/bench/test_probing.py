"""What a side's facts say of the software that runs one model."""

from perfgate.bench.probing import of_framework
from perfgate.records.protocol import Software
from perfgate.records.workload import ModelSpec

BOTH = Software(
    versions={
        "python": "3.11.7",
        "numpy": "2.4.6",
        "torch": "2.14.1",
        "torchvision": "0.29.1",
        "onnxruntime": "1.32.0",
    },
    flags={"mkldnn": "True", "onnxruntime_providers": "CPUExecutionProvider", "processors": "2"},
)


def test_of_framework__models_that_share_a_process_are_not_judged_by_each_others():
    torch = of_framework(BOTH, ModelSpec(name="net", entry="a:b"))
    assert set(torch.versions) == {"python", "numpy", "torch", "torchvision"}
    assert set(torch.flags) == {"mkldnn", "processors"}
    onnx = of_framework(BOTH, ModelSpec(name="net", entry="a.onnx"))
    assert set(onnx.versions) == {"python", "numpy", "onnxruntime"}
    assert set(onnx.flags) == {"onnxruntime_providers", "processors"}
