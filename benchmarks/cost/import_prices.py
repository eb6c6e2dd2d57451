"""Makes the price tables of the package anew from public price lists.

    python -m benchmarks.cost.import_prices --out perfgate/hardware/prices
    python -m benchmarks.cost.import_prices --skypilot lambda=vms.csv --date 2026-11-01 --out perfgate/hardware/prices

In: the folder ``prices`` of the public data (see ``public``), or one table of SkyPilot's catalogue. Out: one CSV a
provider and date in the form of ``perfgate.hardware.tables``, and on standard output what was left out and why. Without
``--out`` nothing is written.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks.cost import public
from benchmarks.cost.prices import aws, azure, fsdl, gcp, skypilot
from benchmarks.cost.prices.machine import NO_PLATFORM, LeftOut, Machine
from benchmarks.tables import print_table
from perfgate.hardware import catalogue, tables

_FSDL_DATE = "2025-03-01"
# The day of each list, and where it comes from. Where only month or year are known, their first day.
_SKYPILOT = {
    "nebius": ("skypilot_nebius_v8_gpu.csv", "2026-01-01"),
    "oci": ("skypilot_oci_v8_gpu_af-casablanca-1.csv", "2026-09-18"),
    "verda": ("skypilot_verda_v8.csv", "2026-01-01"),
}
_SKYPILOT_SOURCE = "skypilot-org/skypilot-catalog"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A row to be: its machine or why there is none."""

    provider: str
    region: str
    instance: str
    on_demand: str
    spot: str
    date: str
    source: str
    machine: Machine | None = None
    reason: str = ""


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0, also where there are no public data."""
    parser = argparse.ArgumentParser(description="Makes the package's price tables from public price lists.")
    parser.add_argument("--data", default="", help=f"folder of the public data (default: ${public.VARIABLE})")
    parser.add_argument("--skypilot", metavar="PROVIDER=FILE", help="one table in SkyPilot's form instead")
    parser.add_argument("--date", default="", help="its day, YYYY-MM-DD")
    parser.add_argument("--source", default=_SKYPILOT_SOURCE, help="who says so (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="folder to write to")
    given = parser.parse_args(arguments)
    cores = {name: each.cores for name, each in catalogue.platforms().items() if each.cores}
    if given.skypilot:
        provider, _, file = given.skypilot.partition("=")
        if not Path(file).is_file() or not given.date:
            parser.error("--skypilot takes PROVIDER=FILE of a file that is there, and --date its day")
        found = _checked(_skypilot(Path(file), provider, given.date, given.source, cores))
    else:
        data = public.folder(given.data)
        if data is None or not (data / "prices").is_dir():
            print(public.how_to_get("price tables"))
            return 0
        found = _checked(_all(data / "prices", cores))
    _report(found)
    if given.out:
        _write(found, given.out)
    return 0


def _all(folder: Path, cores: dict[str, int]) -> Iterator[Found]:
    found = [
        *_aws(folder / "aws_us-east-1_2026-07-20.csv", cores),
        *_azure(folder / "azure_N-series_2026-06-18.csv"),
        *_gcp(folder / "gcp_accelerator_instances.csv", cores),
    ]
    for provider, (file, date) in _SKYPILOT.items():
        found += _skypilot(folder / file, provider, date, _SKYPILOT_SOURCE, cores)
    yield from found
    yield from _fsdl(folder / "fsdl_cloud-gpus.csv", {(each.provider, each.instance) for each in found})


def _read(path: Path) -> Iterator[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        yield from csv.DictReader(stream)


def _one(rule: Callable[[], Machine], blank: Found) -> Found:
    try:
        return replace(blank, machine=rule())
    except LeftOut as left:
        return replace(blank, reason=str(left))


def _aws(path: Path, cores: dict[str, int]) -> Iterator[Found]:
    for row in _read(path):
        blank = Found(
            provider="aws", region=row["region"], instance=row["instance_type"], spot="",
            on_demand=row["on_demand_usd_per_hour"], date="2026-07-20", source="aws/karpenter-provider-aws@1d92708",
        )  # fmt: skip
        rule = partial(aws.machine, blank.instance, row["accelerator"], row["accelerator_count"], cores)
        yield _one(rule, blank)


def _azure(path: Path) -> Iterator[Found]:
    for row in _read(path):
        blank = Found(
            provider="azure", region=row["region"], instance=row["instance_type"], spot="",
            on_demand=row["on_demand_usd_per_hour"], date="2026-06-18",
            source="Azure/karpenter-provider-azure@352646f",
        )  # fmt: skip
        yield _one(partial(azure.machine, blank.instance), blank)


def _gcp(path: Path, cores: dict[str, int]) -> Iterator[Found]:
    for row in _read(path):
        blank = Found(
            provider="gcp", region=row["region"], instance=row["instance_type"], spot=row["spot_usd_per_hour"],
            on_demand=row["on_demand_usd_per_hour"], date="2026-08-03",
            source="cloudpilot-ai/karpenter-provider-gcp@417f047",
        )  # fmt: skip
        yield _one(partial(gcp.machine, blank.instance, cores), blank)


def _skypilot(path: Path, provider: str, date: str, source: str, cores: dict[str, int]) -> Iterator[Found]:
    for row in _read(path):
        # OCI has one price everywhere and says nothing of where a shape is to be had.
        region = "" if provider == "oci" else row.get("Region", "")
        blank = Found(
            provider=provider, region=region, instance=row["InstanceType"], on_demand=row["Price"],
            spot=row.get("SpotPrice", ""), date=date, source=source,
        )  # fmt: skip
        yield _one(partial(skypilot.row, row, provider, cores), blank)


def _fsdl(path: Path, newer: set[tuple[str, str]]) -> Iterator[Found]:
    for row in _read(path):
        provider = fsdl.provider(row["Cloud"])
        name, machine, reason = row["Name"] or row["GPU Type"], None, fsdl.unreliable(row)
        try:
            if not reason:
                name, machine = fsdl.row(row)
        except LeftOut as left:
            reason = str(left)
        if (provider, name) in newer:
            machine, reason = None, "replaced by a newer list"
        yield Found(
            provider=provider, region="", instance=name, on_demand=row["On-demand"], spot=row["Spot"],
            date=_FSDL_DATE, source="the-full-stack/website@2bddc6d", machine=machine, reason=reason,
        )  # fmt: skip


def _checked(found: Iterable[Found]) -> list[Found]:
    """Platforms that the catalogue lacks, and rows that are there twice, are left out too."""
    known = catalogue.platforms()
    seen: set[tuple[str, ...]] = set()
    result = []
    for each in found:
        key = (each.provider, each.region, each.instance, each.date, each.on_demand, each.spot)
        reason = each.reason
        if each.machine and each.machine.platform not in known:
            reason = NO_PLATFORM
        elif each.machine and key in seen:
            reason = "the same row once more"
        seen.add(key)
        result.append(replace(each, machine=None if reason else each.machine, reason=reason))
    return result


def _report(found: Iterable[Found]) -> None:
    kept, left = Counter[tuple[str, str]](), defaultdict[tuple[str, str], list[str]](list)
    for each in found:
        if each.machine:
            kept[each.provider, each.date] += 1
        else:
            left[each.provider, each.reason].append(each.instance)
    print_table(("table", "date", "rows"), [(who, date, str(count)) for (who, date), count in sorted(kept.items())])
    print()
    rows = [
        (f"{who}: {reason}", str(len(names)), ", ".join(sorted(set(names)))[:90])
        for (who, reason), names in sorted(left.items())
    ]
    print_table(("left out", "rows", "names"), rows)


def _write(found: Iterable[Found], folder: Path) -> None:
    files: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
    for each in found:
        if each.machine:
            files[f"{each.provider}_{each.date}.csv"].append(_cells(each, each.machine))
    for name, rows in files.items():
        with (folder / name).open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, tables.COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def _cells(each: Found, machine: Machine) -> dict[str, str]:
    return {
        "provider": each.provider, "region": each.region.replace(" ", "-"), "instance": each.instance,
        "platform": machine.platform, "count": str(machine.count), "share": _number(machine.share),
        "gpu_mem_gib": _number(machine.device_gib), "vcpu": _number(machine.vcpus), "ram_gib": _number(machine.ram_gib),
        "on_demand": _price(each.on_demand), "spot": _price(each.spot), "currency": tables.USD,
        "fetched_at": each.date, "source": each.source,
    }  # fmt: skip


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _price(text: str) -> str:
    """A millionth of a dollar; the list's own digits where they are fewer."""
    return f"{float(text):.6f}".rstrip("0").rstrip(".") if text.strip() else ""


if __name__ == "__main__":
    sys.exit(main())
