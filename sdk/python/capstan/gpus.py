"""Names for the parameter ``gpu``. Plain strings work as well: operators can add types and groups."""
from __future__ import annotations

from enum import Enum


class GpuGroup(str, Enum):
    """Groups of GPU types: a generation and its memory in GB, or any."""

    ANY = "ANY"
    ADA_16 = "ADA_16"
    ADA_24 = "ADA_24"
    ADA_32_PRO = "ADA_32_PRO"
    ADA_48_PRO = "ADA_48_PRO"
    ADA_80_PRO = "ADA_80_PRO"
    AMPERE_16 = "AMPERE_16"
    AMPERE_24 = "AMPERE_24"
    AMPERE_40 = "AMPERE_40"
    AMPERE_48 = "AMPERE_48"
    AMPERE_80 = "AMPERE_80"
    BLACKWELL_16 = "BLACKWELL_16"
    BLACKWELL_180 = "BLACKWELL_180"
    BLACKWELL_288 = "BLACKWELL_288"
    BLACKWELL_32 = "BLACKWELL_32"
    BLACKWELL_96 = "BLACKWELL_96"
    HOPPER_141 = "HOPPER_141"
    HOPPER_80 = "HOPPER_80"
    HOPPER_96 = "HOPPER_96"
    TURING_16 = "TURING_16"
    TURING_24 = "TURING_24"
    VOLTA_16 = "VOLTA_16"
    VOLTA_32 = "VOLTA_32"

    def __str__(self) -> str:
        return self.value


class ScalerType(str, Enum):
    """The scaling signal."""

    #: Add workers while the oldest job has waited longer than ``scaler_value`` seconds.
    QUEUE_DELAY = "QUEUE_DELAY"
    #: One worker for each ``scaler_value`` jobs or requests.
    REQUEST_COUNT = "REQUEST_COUNT"

    def __str__(self) -> str:
        return self.value
