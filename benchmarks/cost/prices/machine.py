"""What a price list's name of a machine stands for, or why it is left out."""

from __future__ import annotations

from dataclasses import dataclass

SIZE = "the name of the size is not understood"
CPU_NOT_SAID = "the CPU is not said"
NO_PLATFORM = "no such platform in the catalogue"
NOT_CERTAIN = "devices of this size are not certain"
FORM_NOT_SAID = "SXM or PCIe is not said"
PART = "a part of a device"
SEVERAL = "runs on CPUs of several generations"


class LeftOut(Exception):  # noqa: N818 - a finding, not a fault
    """This row does not become a row of ours; the text is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """``share``: of one device, or a CPU machine's physical cores over those of one socket."""

    platform: str
    count: int = 1
    share: float = 1.0
    device_gib: float | None = None
    vcpus: float | None = None
    ram_gib: float | None = None
