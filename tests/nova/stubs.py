# SPDX-License-Identifier: Apache-2.0
"""Stands in for Glance and Neutron: what Nova, the clients and Rally ask of them, and no more."""

import hashlib
import ipaddress
import itertools
import json
import os
import re
import urllib.error
import urllib.parse
import urllib.request
import uuid

PLAIN, PINNING = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
IMAGES = {PLAIN: {"name": "empty"}, PINNING: {"name": "pinning", "hw_cpu_policy": "dedicated"}}


def reply(start, value, status="200 OK"):
    return send(start, json.dumps(value).encode(), status, "application/json")


def send(start, body, status="200 OK", kind="application/octet-stream"):
    start(status, [("Content-Type", kind), ("Content-Length", str(len(body)))])
    return [body]


def body_of(environ):
    return json.loads(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)) or "{}")


class Glance:
    """Two images of the same content, and what Nova uploads when a guest is shelved.

    One of the two has its guests pinned whatever the flavor. Contents are files in `folder`.
    """

    def __init__(self, content, folder):
        self.folder = folder
        self.images = {}
        folder.mkdir()
        for identity, more in IMAGES.items():
            self.images[identity] = BARE | {"id": identity, "visibility": "public", **more}
            self.store(identity, [content])

    def __call__(self, environ, start):
        path = environ["PATH_INFO"].rstrip("/")
        method = environ["REQUEST_METHOD"]
        if path in ("", "/versions"):
            link = {"rel": "self", "href": f"http://{environ['HTTP_HOST']}/v2/"}
            version = {"id": "v2.0", "status": "CURRENT", "links": [link]}
            return reply(start, {"versions": [version]}, "300 Multiple Choices")
        if path == "/v2/schemas/image":
            return reply(start, self.schema())
        if path == "/v2/images" and method == "POST":
            identity = str(uuid.uuid4())
            self.images[identity] = BARE | body_of(environ) | {"id": identity}
            return reply(start, self.images[identity], "201 Created")
        if path == "/v2/images":
            return reply(start, {"images": list(self.images.values())})
        found = re.fullmatch(r"/v2/images/([^/]+)(/file|/members)?", path)
        if not found or found[1] not in self.images:
            return reply(start, {}, "404 Not Found")
        identity, below = found.groups()
        if below == "/members":  # the owner of a snapshot may see it: here everybody may
            return reply(start, body_of(environ) | {"image_id": identity, "status": "pending"})
        if below == "/file" and method == "PUT":
            self.store(identity, chunks(environ["wsgi.input"]))
            return send(start, b"", "204 No Content")
        if below == "/file":
            return send(start, (self.folder / identity).read_bytes())
        if method == "DELETE":
            del self.images[identity]
            (self.folder / identity).unlink(missing_ok=True)
            return send(start, b"", "204 No Content")
        if method == "PATCH":
            for change in body_of(environ):
                name = change["path"].removeprefix("/")
                if change["op"] == "remove":
                    del self.images[identity][name]
                else:
                    self.images[identity][name] = change["value"]
        return reply(start, self.images[identity])

    def store(self, identity, content):
        """Write an image's content: from then on the image is active."""
        path = self.folder / identity
        with path.open("wb") as file:
            file.writelines(content)
        checksum = hashlib.md5(path.read_bytes()).hexdigest()
        size = path.stat().st_size
        self.images[identity] |= {"status": "active", "size": size, "checksum": checksum}

    def schema(self):
        """Return what Nova takes for basic: all else is a property."""
        return {"name": "image", "properties": {name: {} for name in (*BARE, "id", "name")}}


# What an image has that was made and not yet filled.
BARE = {
    "status": "queued", "visibility": "private", "owner": "admin", "disk_format": "raw",
    "container_format": "bare", "size": None, "min_disk": 0, "min_ram": 0, "checksum": None,
    "protected": False, "tags": [], "created_at": "2026-01-01T00:00:00Z",
    "updated_at": "2026-01-01T00:00:00Z", "schema": "/v2/schemas/image",
}  # fmt: skip


def chunks(stream):
    """Yield what was sent in chunks, which wsgiref leaves as they come."""
    while size := int(stream.readline().split(b";")[0], 16):
        yield stream.read(size)
        stream.readline()
    stream.readline()


STORE = {}
NUMBERS = itertools.count(100)

# What Neutron adds to what it is asked to make. A port is bound as soon as it is there.
MADE = {
    "networks": {
        "admin_state_up": True, "status": "ACTIVE", "mtu": 1500, "shared": False,
        "router:external": False, "port_security_enabled": False,
    },
    "subnets": {
        "gateway_ip": None, "enable_dhcp": False, "dns_nameservers": [], "host_routes": [],
    },
    "ports": {
        "admin_state_up": True, "status": "ACTIVE", "device_id": "", "device_owner": "",
        "port_security_enabled": False, "security_groups": [], "binding:vnic_type": "normal",
        "binding:profile": {}, "binding:host_id": "", "binding:vif_type": "ovs",
        "binding:vif_details": {"datapath_type": "netdev", "bridge_name": "br-int"},
    },
}  # fmt: skip


def neutron(environ, start):
    """A table in memory that clients change; networks belong to who made them."""
    path = environ["PATH_INFO"]
    found = re.fullmatch(r"/v2.0/([a-z-]+?)(?:\.json)?(?:/([^/]+?)(?:\.json)?)?(/[a-z_/]+)?", path)
    if not found:
        link = {"rel": "self", "href": f"http://{environ['HTTP_HOST']}/v2.0/"}
        return reply(start, {"versions": [{"id": "v2.0", "status": "CURRENT", "links": [link]}]})
    kind, identity, action = found.groups()
    many = kind.replace("-", "_")
    one = many.removesuffix("s")
    method = environ["REQUEST_METHOD"]
    rows = STORE.setdefault(kind, {})
    if kind == "quotas":
        return reply(start, {"quota": {"port": -1, "network": -1, "security_group": -1}})
    if method == "POST":
        item = make(kind, body_of(environ)[one], project_of(environ))
        rows[item["id"]] = item
        return reply(start, {one: item}, "201 Created")
    if identity is None:
        return reply(start, {many: chosen(rows.values(), environ)})
    if identity not in rows:
        error = {"type": f"{one.title()}NotFound", "message": identity, "detail": ""}
        return reply(start, {"NeutronError": error}, "404 Not Found")
    if method == "DELETE":
        del rows[identity]
        return send(start, b"", "204 No Content")
    if action is not None:  # a router's interfaces: nothing here asks for them again
        return reply(start, body_of(environ))
    if method == "PUT":
        rows[identity].update(body_of(environ)[one])
    return reply(start, {one: rows[identity]})


def project_of(environ):
    """Ask Keystone whose token it is; Nova itself comes with none of Keystone's."""
    token = environ.get("HTTP_X_AUTH_TOKEN", "")
    headers = {"X-Auth-Token": token, "X-Subject-Token": token}
    request = urllib.request.Request(f"{os.environ['AUTH_URL']}/auth/tokens", headers=headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return json.loads(answer.read())["token"]["project"]["id"]
    except urllib.error.HTTPError:
        return "nova"


def make(kind, asked, project):
    """Return a new row: what was asked for, and what Neutron adds."""
    item = {"id": str(uuid.uuid4()), "tenant_id": project, "project_id": project}
    item |= MADE.get(kind, {}) | asked
    if kind == "networks":
        item.setdefault("subnets", [])
    if kind == "subnets":
        STORE["networks"][item["network_id"]]["subnets"].append(item["id"])
    if kind == "ports" and "fixed_ips" not in asked:
        number = next(NUMBERS)
        subnet = STORE["subnets"][STORE["networks"][item["network_id"]]["subnets"][0]]
        address = ipaddress.ip_network(subnet["cidr"])[number]
        item["mac_address"] = f"fa:16:3e:00:01:{number:02x}"
        item["fixed_ips"] = [{"subnet_id": subnet["id"], "ip_address": str(address)}]
    return item


def chosen(items, environ):
    query = urllib.parse.parse_qs(environ.get("QUERY_STRING", ""))
    return [
        item
        for item in items
        if all(name == "fields" or str(item.get(name)) in query[name] for name in query)
    ]
