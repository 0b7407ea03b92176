# SPDX-License-Identifier: Apache-2.0
"""A client of Keystone, nova-api, Placement and the stub of Neutron: what the tests ask of them."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

PLAIN, PINNING = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
"""The images of `stubs.py`; the second has the property hw_cpu_policy = dedicated."""

AUTH_URL = "http://127.0.0.1:5000/v3"
PASSWORD = "secret"
REGION = "One"
LOG_IN = {
    "OS_AUTH_URL": AUTH_URL, "OS_USERNAME": "admin", "OS_PASSWORD": PASSWORD,
    "OS_PROJECT_NAME": "admin", "OS_USER_DOMAIN_ID": "default", "OS_PROJECT_DOMAIN_ID": "default",
}  # fmt: skip
"""What clients read from their environment."""

SERVICES = {
    "compute": "http://127.0.0.1:8774/v2.1",
    "placement": "http://127.0.0.1:8778",
    "image": "http://127.0.0.1:9292",
    "network": "http://127.0.0.1:9696",
}
WATCHER = "http://127.0.0.1:9322"
TIMEOUT_S = 60.0
MEMORY_MB = 128

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
    """Keystone's administrator, once `log_in` was called."""

    def log_in(self) -> None:
        """Get a token, and tell Keystone where the other services are. Raises `Refused`."""
        domain = {"id": "default"}
        user = {"name": "admin", "domain": domain, "password": PASSWORD}
        wanted = {
            "identity": {"methods": ["password"], "password": {"user": user}},
            "scope": {"project": {"name": "admin", "domain": domain}},
        }
        request = _request("POST", f"{AUTH_URL}/auth/tokens", {"auth": wanted}, {})
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            self._token = {"X-Auth-Token": answer.headers["X-Subject-Token"]}
            self.project = json.loads(answer.read())["token"]["project"]["id"]
        for kind, url in SERVICES.items():
            self.offer(kind, url)

    def offer(self, kind: str, url: str) -> None:
        """Tell Keystone where a service is. Raises `Refused`."""
        service = {"type": kind, "name": kind}
        made = self._call("POST", f"{AUTH_URL}/services", {"service": service})["service"]["id"]
        for interface in ("public", "internal", "admin"):
            endpoint = {
                "service_id": made, "interface": interface, "url": url,
                "region_id": REGION,
            }  # fmt: skip
            self._call("POST", f"{AUTH_URL}/endpoints", {"endpoint": endpoint})

    def nova(self, method: str, path: str, value: object = None, version: str = "2.90") -> Any:
        """Ask nova-api. Raises `Refused`."""
        headers = {"OpenStack-API-Version": f"compute {version}"}
        return self._call(method, f"{SERVICES['compute']}{path}", value, headers)

    def placement(self, path: str) -> Any:
        """Ask Placement. Raises `Refused`."""
        headers = {"OpenStack-API-Version": "placement 1.39"}
        return self._call("GET", f"{SERVICES['placement']}{path}", None, headers)

    def watcher(self, method: str, path: str, value: object = None) -> Any:
        """Ask watcher-api, which the cloud has where a test starts it. Raises `Refused`."""
        headers = {"OpenStack-API-Version": "infra-optim latest"}
        return self._call(method, f"{WATCHER}/v1{path}", value, headers)

    def images(self) -> set[str]:
        """Return the ids of all images."""
        found = self._call("GET", f"{SERVICES['image']}/v2/images", None)["images"]
        return {image["id"] for image in found}

    def make_flavor(self, name: str, vcpus: int, extra_specs: Mapping[str, str]) -> str:
        """Make a flavor and return its id."""
        flavor = {"name": name, "vcpus": vcpus, "ram": MEMORY_MB, "disk": 0}
        made = self.nova("POST", "/flavors", {"flavor": flavor})["flavor"]["id"]
        if extra_specs:
            specs = {"extra_specs": dict(extra_specs)}
            self.nova("POST", f"/flavors/{made}/os-extra_specs", specs)
        return str(made)

    def boot(
        self, name: str, flavor: str, image: str = PLAIN, port: str | None = None, host: str = ""
    ) -> str:
        """Ask for a guest, on a host or on any, and return its id; it is being built."""
        server = {
            "name": name,
            "flavorRef": flavor,
            "imageRef": image,
            "networks": [{"port": port}] if port else "none",
        }
        if host:
            server["host"] = host
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
        self._neutron("network", id=_NETWORK, name="lab")
        self._neutron(
            "subnet", id=_SUBNET, network_id=_NETWORK, cidr="198.51.100.0/24", ip_version=4
        )
        self._neutron(
            "port", id=uuid, network_id=_NETWORK, mac_address=f"fa:16:3e:00:00:{address:02x}",
            fixed_ips=[{"subnet_id": _SUBNET, "ip_address": f"198.51.100.{address}"}],
            **{"binding:vif_type": vif_type, "binding:vif_details": dict(details)},
        )  # fmt: skip

    def _neutron(self, kind: str, **item: object) -> None:
        self._call("POST", f"{SERVICES['network']}/v2.0/{kind}s", {kind: item})

    def _call(
        self, method: str, url: str, value: object, headers: Mapping[str, str] | None = None
    ) -> Any:
        request = _request(method, url, value, {**self._token, **(headers or {})})
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                body = answer.read()
        except urllib.error.HTTPError as error:
            raise Refused(error.code, error.read().decode()) from error
        return json.loads(body) if body else None


def _request(
    method: str, url: str, value: object, headers: Mapping[str, str]
) -> urllib.request.Request:
    return urllib.request.Request(
        url,
        method=method,
        headers={**headers, "Content-Type": "application/json"},
        data=None if value is None else json.dumps(value).encode(),
    )
