"""Price lists as files."""

from __future__ import annotations

import math

import pytest

from perfgate.errors import UsageError
from perfgate.hardware import tables
from tests.hardware.price_lists import row, table


def test_parse__reads_every_column() -> None:
    (found,) = table(
        row(
            "big",
            region="eu",
            platform="H100-SXM",
            count="8",
            share="1",
            gpu_mem_gib="80",
            vcpu="192",
            ram_gib="2048",
            on_demand="55.04",
            spot="20",
            currency="usd",
            source="acme/prices",
        )
    ).rows
    assert (found.provider, found.region, found.instance, found.platform) == ("acme", "eu", "big", "h100-sxm")
    assert (found.count, found.share, found.device_gib, found.vcpus, found.ram_gib) == (8, 1.0, 80.0, 192.0, 2048.0)
    assert (found.on_demand, found.spot, found.currency, found.source) == (55.04, 20.0, "USD", "acme/prices")
    assert found.line == 2


def test_parse__takes_columns_in_any_order_and_fills_in_what_is_missing() -> None:
    text = "# mine\nfetched_at,on_demand,platform,instance,provider\n2026-11-01,0.5,t4,box,Acme\n\n"
    (found,) = tables.parse(text, "mine.csv").rows
    assert (found.provider, found.count, found.share, found.currency) == ("acme", 1, 1.0, "USD")
    assert (found.region, found.spot, found.vcpus, found.line) == ("", None, None, 3)


def test_parse__keeps_an_empty_price_apart_from_nan_and_zero() -> None:
    found = table(row("a"), row("b", on_demand="NaN"), row("c", on_demand="0"), row("d", on_demand="-1")).rows
    assert found[0].on_demand is None
    assert math.isnan(found[1].on_demand or 0.0)
    assert [each.on_demand for each in found[2:]] == [0.0, -1.0]


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({"on_demand": "0,5"}, "cells for 14 columns"),
        ({"on_demand": "$1.20"}, "on_demand is '$1.20', no number"),
        ({"count": "1.5"}, "in the column share"),
        ({"count": "0"}, "whole number of devices"),
        ({"share": "-1"}, "share is '-1'"),
        ({"vcpu": "inf"}, "vcpu is 'inf'"),
        ({"fetched_at": "20.07.2026"}, "YYYY-MM-DD"),
        ({"fetched_at": ""}, "fetched_at is empty"),
        ({"platform": ""}, "platform is empty"),
        ({"instance": "GPU SMALL"}, "without blanks"),
        ({"provider": "own"}, "cost.prices"),
    ],
)
def test_parse__names_file_line_column_and_remedy(cells: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as error:
        table(row("good", on_demand="1"), row(cells.pop("instance", "bad"), **({"on_demand": "1"} | cells)))
    assert "list.csv:3" in str(error.value)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("provider,instance,platform,on_demnd,fetched_at", "did you mean 'on_demand'?"),
        ("provider,instance,platform,fetched_at", "no column on_demand"),
        ("provider,on_demand,fetched_at", "no column instance, platform"),
        ("provider,provider,instance,platform,on_demand,fetched_at", "there twice"),
        ("", "first line names the columns"),
    ],
)
def test_parse__refuses_a_header_that_it_does_not_know(header: str, said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("?", r"\?")):
        tables.parse(header, "list.csv")


def test_parse__says_all_problems_but_not_hundreds() -> None:
    with pytest.raises(UsageError) as error:
        table(*(row(f"m{number}", on_demand="x") for number in range(40)))
    assert "list.csv:2" in str(error.value)
    assert "and 34 more" in str(error.value)


def test_read__a_missing_file_and_bad_bytes_are_one_line(tmp_path) -> None:
    with pytest.raises(UsageError, match="name a CSV file"):
        tables.read(tmp_path / "none.csv")
    (tmp_path / "latin.csv").write_bytes("provider,régime".encode("latin-1"))
    with pytest.raises(UsageError, match="UTF-8"):
        tables.read(tmp_path / "latin.csv")


def test_read__a_byte_order_mark_is_no_column(tmp_path) -> None:
    path = tmp_path / "excel.csv"
    path.write_text("provider,instance,platform,on_demand,fetched_at\nacme,a,l4,1,2026-11-01\n", encoding="utf-8-sig")
    assert tables.read(path).rows[0].provider == "acme"
