# SPDX-License-Identifier: Apache-2.0
"""A client of nova-api and Placement, and of the stub of Neutron: what the tests ask of them."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

PLAIN, PINNING = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
"""The images of `web.py`; the second has the property hw_cpu_policy = dedicated."""

TIMEOUT_S = 60.0
MEMORY_MB = 128

_WHO = {
    "X-Auth-Token": "admin", "X-User-Id": "admin", "X-User-Name": "admin", "X-Project-Id": "admin",
    "X-Project-Name": "admin", "X-Roles": "admin,member,reader",
}  # fmt: skip
_NETWORK = "aaaaaaaa-0000-4000-8000-000000000000"
_SUBNET = "bbbbbbbb-0000-4000-8000-000000000000"


class Refused(Exception):
    """An answer that is no success."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code
        self.text = text

    @property
    def message(self) -> str:
        """Nova's own words."""
        (error,) = json.loads(self.text).values()
        return str(error["message"])


class Api:
    """Nobody has to log in: see `web.py`."""

    def nova(self, method: str, path: str, value: object = None, version: str = "2.90") -> Any:
        """Ask nova-api. Raises `Refused`."""
        headers = {"OpenStack-API-Version": f"compute {version}"}
        return _call(method, f"http://127.0.0.1:8774/v2.1{path}", value, headers)

    def placement(self, path: str) -> Any:
        """Ask Placement. Raises `Refused`."""
        headers = {"OpenStack-API-Version": "placement 1.39"}
        return _call("GET", f"http://127.0.0.1:8778{path}", None, headers)

    def make_flavor(self, name: str, vcpus: int, extra_specs: Mapping[str, str]) -> str:
        """Make a flavor and return its id."""
        flavor = {"name": name, "vcpus": vcpus, "ram": MEMORY_MB, "disk": 0}
        made = self.nova("POST", "/flavors", {"flavor": flavor})["flavor"]["id"]
        if extra_specs:
            specs = {"extra_specs": dict(extra_specs)}
            self.nova("POST", f"/flavors/{made}/os-extra_specs", specs)
        return str(made)

    def boot(self, name: str, flavor: str, image: str = PLAIN, port: str | None = None) -> str:
        """Ask for a guest and return its id; it is being built."""
        server = {
            "name": name,
            "flavorRef": flavor,
            "imageRef": image,
            "networks": [{"port": port}] if port else "none",
        }
        return str(self.nova("POST", "/servers", {"server": server})["server"]["id"])

    def server(self, uuid: str) -> Mapping[str, Any] | None:
        """Return a guest's record, None when there is no such guest."""
        try:
            return dict(self.nova("GET", f"/servers/{uuid}")["server"])
        except Refused as error:
            if error.code == 404:
                return None
            raise

    def action(self, uuid: str, name: str, value: object = None) -> None:
        """Have something done to a guest, such as ``os-stop``."""
        self.nova("POST", f"/servers/{uuid}/action", {name: value})

    def make_port(self, uuid: str, vif_type: str, details: Mapping[str, object]) -> None:
        """Make a port that looks bound; the last two digits of `uuid` tell ports apart."""
        address = int(uuid[-2:], 16)
        self._neutron("network", id=_NETWORK, name="lab", mtu=1500, subnets=[_SUBNET])
        self._neutron(
            "subnet", id=_SUBNET, network_id=_NETWORK, cidr="198.51.100.0/24", ip_version=4,
            gateway_ip=None, enable_dhcp=False, dns_nameservers=[], host_routes=[],
        )  # fmt: skip
        self._neutron(
            "port", id=uuid, network_id=_NETWORK, mac_address=f"fa:16:3e:00:00:{address:02x}",
            device_id="", device_owner="", security_groups=[], port_security_enabled=False,
            fixed_ips=[{"subnet_id": _SUBNET, "ip_address": f"198.51.100.{address}"}],
            **{"binding:host_id": "", "binding:profile": {}, "binding:vnic_type": "normal",
               "binding:vif_type": vif_type, "binding:vif_details": dict(details)},
        )  # fmt: skip

    def _neutron(self, kind: str, **item: object) -> None:
        common = {"tenant_id": "admin", "project_id": "admin", "admin_state_up": True,
                  "status": "ACTIVE", "port_security_enabled": False}  # fmt: skip
        _call("POST", f"http://127.0.0.1:9696/v2.0/{kind}s", {kind: common | item}, {})


def _call(method: str, url: str, value: object, headers: Mapping[str, str]) -> Any:
    request = urllib.request.Request(
        url,
        method=method,
        headers={**_WHO, **headers, "Content-Type": "application/json"},
        data=None if value is None else json.dumps(value).encode(),
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            body = answer.read()
    except urllib.error.HTTPError as error:
        raise Refused(error.code, error.read().decode()) from error
    return json.loads(body) if body else None
