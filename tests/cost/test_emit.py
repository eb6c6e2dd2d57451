"""What schedulers are asked for: fields, labels and options that they really have."""

import json
import re
from datetime import date

import pytest

from perfgate.cost.allocate import allocate
from perfgate.cost.emit import FORMS, KUBERNETES, RUNS_ON, SKYPILOT, SLURM, emit
from perfgate.cost.emit_facts import label
from perfgate.cost.emit_slurm import duration
from perfgate.cost.emit_yaml import document
from perfgate.errors import UsageError
from perfgate.hardware import catalogue, offers
from perfgate.records.allocation import Allocation, Assignment
from perfgate.records.cost import Point, Prices, Requirements
from perfgate.records.estimate import Job
from perfgate.records.hardware import CPU, OWN, SPOT, Market, Offer
from tests.cost.problems import GIB, FakeTimes, make_offer, make_way

yaml = pytest.importorskip("ruamel.yaml")

# Of the core/v1 PodSpec, Container, ResourceRequirements and Toleration.
POD = {"activeDeadlineSeconds", "nodeSelector", "tolerations", "containers"}
TOLERATION = {"key", "operator", "value", "effect"}
# Of sbatch and srun alike.
SLURM_OPTIONS = {"job-name", "nodes", "ntasks", "cpus-per-task", "mem", "gres", "time"}
# Of SkyPilot's task and its resources.
SKY = {"infra", "accelerators", "instance_type", "cpus", "memory", "use_spot"}
QUANTITY = re.compile(r"[1-9][0-9]*(m|Mi|Gi)?")
LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


def allocated(offer, *, used=None, job=None, host_bytes=5 * GIB):
    """An allocation whose machine is this offer."""
    point = Point(
        offer=offer, devices=used or offer.count, batch=1, dtype="float32", compile="eager", form="single", step_ns=1.0,
        low_ns=1.0, high_ns=1.0, source="roofline", memory_bytes=GIB, free_bytes=2 * GIB, utilisation=0.1,
        items_per_s=1.0, usd_per_1k_steps=1.0, usd_per_1m_items=1.0, bound="memory", why="",
    )  # fmt: skip
    chosen = Assignment(
        point=point, slow_items_per_s=1.0, memory_bytes=GIB, peak_flop_per_s=1e12, host_bytes=host_bytes
    )
    return Allocation(
        job=job or Job(items=1.0, deadline_s=90_061.0), choice="cheapest", candidates=1, feasible=1, chosen=chosen
    )


def emitted(form, offer, **changes):
    return emit(allocated(offer, **changes), form, name="My model_1")


def read(text):
    return yaml.YAML(typ="safe", pure=True).load(text)


def pod(offer, **changes):
    return read(emitted(KUBERNETES, offer, **changes))["spec"]


def sky(offer, **changes):
    return read(emitted(SKYPILOT, offer, **changes))["resources"]


def everything():
    """Every offer of the shipped tables, and every platform of the catalogue as a machine of one's own."""
    market = offers.market(Prices(max_age_days=10_000), today=date(2026, 10, 1))
    own = [
        Offer(provider=OWN, region="", instance=f"rack-{name}", platform=name, count=1 if platform.kind == CPU else 2,
              usd_per_hour=0.004, terms=OWN, date="")
        for name, platform in catalogue.platforms().items()
    ]  # fmt: skip
    return [*market.offers, *own]


def test_kubernetes__of_every_offer_has_only_fields_and_values_that_exist():
    for offer in everything():
        spec = pod(offer)
        assert set(spec) <= POD
        [container] = spec["containers"]
        assert set(container) == {"name", "resources"}
        assert container["name"] == "my-model-1"
        assert set(container["resources"]) == {"requests", "limits"}
        for side in container["resources"].values():
            assert all(isinstance(value, str) and QUANTITY.fullmatch(value) for value in side.values()), side
        # Extended resources are never overcommitted.
        limits, requests = container["resources"]["limits"], container["resources"]["requests"]
        assert {key: value for key, value in requests.items() if key != "cpu"} == limits
        assert all(LABEL.fullmatch(value) for value in spec["nodeSelector"].values()), spec
        assert all(set(one) <= TOLERATION for one in spec.get("tolerations", ()))


def test_skypilot__of_every_offer_has_only_fields_that_exist_and_never_forgets_the_accelerator():
    refused = []
    for offer in everything():
        try:
            task = read(emitted(SKYPILOT, offer))
        except UsageError as error:
            refused.append((offer.provider, str(error)))
            continue
        assert set(task) == {"name", "num_nodes", "resources"}
        resources = task["resources"]
        assert set(resources) <= SKY
        if catalogue.find(offer.platform).kind != CPU:
            assert "accelerators" in resources or "instance_type" in resources, offer
    # Parts of devices in machines of one's own, and nothing that a price list has.
    assert {provider for provider, _ in refused} == {OWN}
    assert all("part of a device" in message for _, message in refused)


def test_slurm__of_every_offer_is_one_line_of_options_that_exist():
    for offer in everything():
        text = emitted(SLURM, offer)
        assert text.endswith("\n")
        assert text.count("\n") == 1
        for option in text.split():
            match = re.fullmatch(r"--([a-z-]+)=(\S+)", option)
            assert match, option
            assert match[1] in SLURM_OPTIONS
    assert emitted(SLURM, make_offer("l4", 1.0, vcpus=8.0)) == (
        "--job-name=my-model-1 --nodes=1 --ntasks=1 --cpus-per-task=8 --mem=5G --gres=gpu:l4:1 --time=1-01:01:00\n"
    )


@pytest.mark.parametrize(
    ("platform", "wanted"),
    [
        ("a100-sxm-80gb", "gpu:a100:2"),
        ("rtx-3090", "gpu:rtx_3090:2"),
        ("v100s-pcie-32gb", "gpu:v100s:2"),
        ("rtx-4060-ti-16gb", "gpu:rtx_4060_ti:2"),
        ("h100-sxm-mig-1g.10gb", "gpu:1g.10gb:2"),
        ("l4-1of8", "gpu:l4:2"),
    ],
)
def test_slurm__type_of_the_gpu_is_a_part_of_its_detected_name(platform, wanted):
    assert f"--gres={wanted} " in emitted(SLURM, make_offer(platform, 1.0, count=2))


def test_slurm__time_is_whole_minutes_and_never_more_than_the_deadline():
    assert duration(90_061.0) == "1-01:01:00"
    assert duration(3599.0) == "0-00:59:00"
    assert duration(10.0) == "0-00:01:00"
    assert "--time" not in emitted(SLURM, make_offer("l4", 1.0), job=Job(items_per_s=1.0))


@pytest.mark.parametrize(
    ("offer", "selector"),
    [
        (
            make_offer("l4", 1.0, provider="gcp", region="us-central1", instance="g2-standard-4"),
            {"cloud.google.com/gke-accelerator": "nvidia-l4", "topology.kubernetes.io/region": "us-central1"},
        ),
        (
            make_offer("h100-sxm", 1.0, provider="gcp", region="", instance="a3-megagpu-8g", terms=SPOT),
            {"cloud.google.com/gke-accelerator": "nvidia-h100-mega-80gb", "cloud.google.com/gke-spot": "true"},
        ),
        (
            make_offer("h100-sxm", 1.0, provider="aws", region="us-east-1", instance="p5.4xlarge", terms=SPOT),
            {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "topology.kubernetes.io/region": "us-east-1",
             "eks.amazonaws.com/capacityType": "SPOT"},
        ),
        (make_offer("a100-sxm-40gb", 1.0), {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}),
        (make_offer("t4", 1.0), {"nvidia.com/gpu.product": "Tesla-T4"}),
        (make_offer("mi300x", 1.0), {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}),
        (
            make_offer("graviton4", 1.0, provider="aws", region="", instance="c8g.large"),
            {"node.kubernetes.io/instance-type": "c8g.large", "kubernetes.io/arch": "arm64"},
        ),
        # A part of a card has the whole one's name: only the type of the machine tells it.
        (
            make_offer("l4-1of8", 1.0, provider="aws", region="", instance="g6f.large"),
            {"node.kubernetes.io/instance-type": "g6f.large"},
        ),
        (make_offer("core-i9-13900k", 1.0, provider=OWN), {"kubernetes.io/arch": "amd64"}),
        (
            make_offer("tpu-v6e", 1.0, provider="gcp", region="", instance="ct6e-standard-4t", count=4),
            {"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice", "cloud.google.com/gke-tpu-topology": "2x2"},
        ),
    ],
)  # fmt: skip
def test_kubernetes__node_is_selected_by_the_label_of_its_accelerator(offer, selector):
    assert pod(offer)["nodeSelector"] == selector


@pytest.mark.parametrize(
    ("platform", "resource"),
    [
        ("l4", "nvidia.com/gpu"), ("a100-sxm-40gb-mig-1g.5gb", "nvidia.com/mig-1g.5gb"), ("mi300x", "amd.com/gpu"),
        ("max-1100", "gpu.intel.com/i915"), ("arc-b580", "gpu.intel.com/xe"), ("gaudi2", "habana.ai/gaudi"),
        ("tpu-v5e", "google.com/tpu"), ("trainium1", "aws.amazon.com/neuron"),
    ],
)  # fmt: skip
def test_kubernetes__resource_is_that_of_the_device_plugin(platform, resource):
    spec = pod(make_offer(platform, 1.0, count=4), used=2)
    assert spec["containers"][0]["resources"]["limits"] == {"memory": "5Gi", resource: "2"}
    assert spec["tolerations"][0]["effect"] == "NoSchedule"


def test_kubernetes__processors_leave_room_for_the_node_and_memory_is_rounded_up():
    requests = pod(make_offer("l4", 1.0, vcpus=8.0, count=2), used=1, host_bytes=4 * GIB + 1)["containers"][0][
        "resources"
    ]
    # Half of the machine's devices: half of its eight processors, less a tenth.
    assert requests["requests"] == {"cpu": "3600m", "memory": "5Gi", "nvidia.com/gpu": "1"}
    assert pod(make_offer("l4", 1.0))["activeDeadlineSeconds"] == 90_061
    assert "activeDeadlineSeconds" not in pod(make_offer("l4", 1.0), job=Job(items_per_s=1.0))


@pytest.mark.parametrize(
    ("offer", "resources"),
    [
        (
            make_offer("l4", 1.0, provider="aws", region="us-east-1", instance="g6.xlarge", terms=SPOT),
            {"infra": "aws/us-east-1", "accelerators": "L4:1", "instance_type": "g6.xlarge", "use_spot": True},
        ),
        (
            make_offer("v100-sxm-16gb", 1.0, provider="gcp", region="", instance="n1-highmem-8+1xv100", vcpus=8.0),
            {"infra": "gcp", "accelerators": "V100:1", "cpus": "8+", "memory": "5+"},
        ),
        (
            make_offer("h100-sxm", 1.0, provider="gcp", region="", instance="a3-megagpu-8g", count=8),
            {"infra": "gcp", "accelerators": "H100-MEGA:8", "memory": "5+"},
        ),
        (make_offer("rtx-3060-ti", 1.0, provider="simplepod"), {"accelerators": "RTX3060TI:1", "memory": "5+"}),
        (
            make_offer("xeon-8375c", 1.0, provider="aws", region="us-east-1", instance="c6i.large"),
            {"infra": "aws/us-east-1", "instance_type": "c6i.large"},
        ),
    ],
)
def test_skypilot__asks_for_the_very_machine(offer, resources):
    assert sky(offer) == resources


def test_skypilot__of_ones_own_machine_only_what_is_used():
    assert sky(make_offer("a100-sxm-80gb", 1.0, provider=OWN, count=8), used=2)["accelerators"] == "A100-80GB:2"
    # A cloud has no quarter of that machine.
    assert sky(make_offer("a100-sxm-80gb", 1.0, provider="lambda", count=8), used=2)["accelerators"] == "A100-80GB:8"


@pytest.mark.parametrize(
    ("offer", "labels"),
    [
        (make_offer("l4", 1.0), ["self-hosted", "linux", "x64", "gpu", "l4"]),
        (make_offer("a100-sxm-80gb", 1.0, count=4), ["self-hosted", "linux", "x64", "gpu", "a100-x4"]),
        (make_offer("l4", 1.0, provider=OWN, instance="rack"), ["self-hosted", "linux", "x64", "rack"]),
        (make_offer("graviton4", 1.0, instance="c8g.large"), ["self-hosted", "linux", "arm64", "c8g.large"]),
        (make_offer("gh200", 1.0), ["self-hosted", "linux", "arm64", "gpu", "gh200"]),
        (
            make_offer("h100-sxm-mig-1g.10gb", 1.0),
            ["self-hosted", "linux", "x64", "gpu", "h100-sxm-mig-1g.10gb"],
        ),
    ],
)
def test_runs_on__is_a_list_that_a_workflow_can_take(offer, labels):
    assert json.loads(emitted(RUNS_ON, offer)) == labels


def test_emit__prices_keep_their_digits_and_comments_their_line():
    text = emitted(KUBERNETES, make_offer("l4", 0.004, instance="a\nspec: stolen"))
    assert "0.004 USD/h" in text
    assert list(read(text)) == ["spec"]


def test_emit__of_an_allocation_from_end_to_end():
    market = Market(offers=(make_offer("l4", 1.0, provider="gcp", region="us-central1", vcpus=4.0),))
    job = Job(items=1e6, deadline_s=1e6)
    allocation = allocate([make_way()], market, Requirements(), job, FakeTimes({"l4": 1e6}))
    for form in FORMS:
        assert "l4" in emit(allocation, form, name="net").lower()


def test_emit__refuses_another_form_a_miss_and_unknown_platforms():
    with pytest.raises(UsageError, match="runs-on, kubernetes, slurm, skypilot"):
        emitted("nomad", make_offer("l4", 1.0))
    nothing = Allocation(job=Job(), choice="cheapest", candidates=1, feasible=0)
    with pytest.raises(UsageError, match="no machine does the job"):
        emit(nothing, SLURM, name="net")
    with pytest.raises(UsageError, match="abacus is not in the catalogue"):
        emitted(SLURM, make_offer("abacus", 1.0))


def test_label__is_a_dns_name():
    assert label("torchvision.models:ResNet_50") == "torchvision-models-resnet-50"
    assert label("…") == "job"
    assert len(label("a" * 200)) == 63


def test_yaml__quotes_whatever_could_be_taken_for_something_else():
    data = {
        "no": "yes", "a b": "1x1", "number": "1", "empty": "", "colon": "a: b", "dash": "- a", "hash": "a #b",
        "text": "l4", "flag": True, "nothing": None, "count": 3,
        "list": [{"a": 1, "b": {"c": "d"}}, "x", []], "map": {},
    }  # fmt: skip
    text = document(data, "one\nline", "")
    assert text.startswith('# one line\n"no": "yes"\n')
    assert read(text) == data
    assert "\nlist:\n  - a: 1\n    b:\n      c: d\n  - x\n  - []\nmap: {}\n" in text
