# SPDX-License-Identifier: Apache-2.0
"""The results as data to send along (``schema.yaml``): CPU and tests, without names of the host."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from iat_nova.checks.qualify.api import Outcome, Verdict
from iat_nova.hardware.counters.events import cpu_fields
from iat_nova.hardware.host.machine import ChosenInterface
from iat_nova.model import CacheDomain, Message
from iat_nova.report import sentences
from iat_nova.store import records

FORMAT = 2
_CPUINFO = {  # /proc/cpuinfo -> field of the record
    "vendor_id": "vendor",
    "cpu family": "family",
    "model": "model",
    "model name": "name",
    "stepping": "stepping",
    "microcode": "microcode",
}


def cpu_and_microcode(cpuinfo: Path = Path("/proc/cpuinfo")) -> dict[str, str]:
    """Return CPU model and microcode; unknown fields are empty."""
    fields = cpu_fields(cpuinfo)
    return {field: fields.get(name, [""])[0] for name, field in _CPUINFO.items()}


def as_data(
    outcomes: Sequence[Outcome],
    *,
    version: str,
    at_s: float,
    kernel: str,
    cpu: Mapping[str, str],
    choices: Sequence[ChosenInterface],
    domain: CacheDomain | None,
) -> dict[str, Any]:
    """Return the record.

    `domain`: the cache domain of the tests, or None if none could be opened.
    """
    return {
        "format": FORMAT,
        "iat_nova": version,
        "taken_at_s": round(at_s),
        "kernel": kernel,
        "cpu": dict(cpu),
        "interfaces": [
            {"role": one.role, "chosen": one.chosen, **_said("why", one.why)} for one in choices
        ],
        "cache": None
        if domain is None
        else {
            "ways": domain.ways,
            "way_bytes": domain.way_bytes,
            "classes": domain.classes,
            "cpus": len(domain.cpus),
            "ddio_found": None if domain.ddio_found is None else str(domain.ddio_found),
        },
        "passed": passed(outcomes),
        "tests": [
            {
                "name": one.name,
                "verdict": one.judgement.verdict.value,
                **_said("says", one.judgement.says),
                **_said("means", one.judgement.means, "means_"),
                **_said("remedy", one.judgement.remedy, "remedy_"),
                "seconds": round(one.seconds, 1),
                "rows": [dict(row) for row in one.rows],
                "chart": None if one.chart is None else dataclasses.asdict(one.chart),
            }
            for one in outcomes
        ],
    }


def _said(name: str, message: Message | None, prefix: str = "") -> dict[str, Any]:
    """Return a statement as plain values: its text under a name, code and values with a prefix."""
    plain = {"code": None, "values": {}} if message is None else records.unstructure(message)
    return {
        name: None if message is None else sentences.text(message),
        f"{prefix}code": plain["code"],
        f"{prefix}values": plain["values"],
    }


def passed(outcomes: Sequence[Outcome]) -> bool:
    """Whether every test passed."""
    return all(one.judgement.verdict is Verdict.PASS for one in outcomes)
