# SPDX-License-Identifier: Apache-2.0
"""nova-api and Placement, real ones, and stubs of Glance and Neutron, in one process.

Run by `up.sh` under Nova's Python with the file that is every image's content. Keystone is not
missed: Nova takes who asks from the request's headers, Placement lets everybody in.
"""

import hashlib
import json
import pathlib
import re
import socketserver
import sys
import threading
import urllib.parse
import uuid
from wsgiref import simple_server

CONTENT = pathlib.Path(sys.argv.pop()).read_bytes()
PLAIN, PINNING = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
IMAGES = {PLAIN: {}, PINNING: {"hw_cpu_policy": "dedicated"}}


def reply(start, value, status="200 OK"):
    return send(start, json.dumps(value).encode(), status, "application/json")


def send(start, body, status="200 OK", kind="application/octet-stream"):
    start(status, [("Content-Type", kind), ("Content-Length", str(len(body)))])
    return [body]


def image_record(identity):
    return {
        "id": identity, "name": "empty", "status": "active", "visibility": "public",
        "owner": "admin", "disk_format": "raw", "container_format": "bare", "size": len(CONTENT),
        "min_disk": 0, "min_ram": 0, "checksum": hashlib.md5(CONTENT).hexdigest(),
        "protected": False, "tags": [], "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:00:00Z", "schema": "/v2/schemas/image", **IMAGES[identity],
    }  # fmt: skip


def image_schema():
    """Nova drops what the schema does not list, and takes what is not basic for a property."""
    names = {*image_record(PLAIN), *image_record(PINNING)}
    return {
        "name": "image",
        "properties": {name: {"is_base": not name.startswith("hw_")} for name in names},
    }


def glance(environ, start):
    """Two images, one of which has its guests pinned whatever the flavor says."""
    path = environ["PATH_INFO"].rstrip("/")
    if path in ("", "/versions"):
        link = {"rel": "self", "href": f"http://{environ['HTTP_HOST']}/v2/"}
        version = {"id": "v2.0", "status": "CURRENT", "links": [link]}
        return reply(start, {"versions": [version]}, "300 Multiple Choices")
    if path == "/v2/schemas/image":
        return reply(start, image_schema())
    found = re.fullmatch(r"/v2/images/([^/]+)(/file)?", path)
    if not found or found[1] not in IMAGES:
        return reply(start, {}, "404 Not Found")
    return send(start, CONTENT) if found[2] else reply(start, image_record(found[1]))


STORE = {}


def neutron(environ, start):
    """A table in memory: tests add networks and ports, Nova reads and changes them."""
    found = re.fullmatch(
        r"/v2.0/([a-z-]+?)(?:\.json)?(?:/([^/]+?)(?:\.json)?)?", environ["PATH_INFO"]
    )
    if not found:
        link = {"rel": "self", "href": f"http://{environ['HTTP_HOST']}/v2.0/"}
        return reply(start, {"versions": [{"id": "v2.0", "status": "CURRENT", "links": [link]}]})
    kind, identity = found.groups()
    many = kind.replace("-", "_")
    one = many.removesuffix("s")
    method = environ["REQUEST_METHOD"]
    table = STORE.setdefault(kind, {})
    if kind == "quotas":
        return reply(start, {"quota": {"port": -1, "network": -1, "security_group": -1}})
    if method == "POST":
        item = body_of(environ)[one]
        table[item.setdefault("id", str(uuid.uuid4()))] = item
        return reply(start, {one: item}, "201 Created")
    if identity is None:
        return reply(start, {many: chosen(table.values(), environ)})
    if identity not in table:
        error = {"type": f"{one.title()}NotFound", "message": identity, "detail": ""}
        return reply(start, {"NeutronError": error}, "404 Not Found")
    if method == "DELETE":
        del table[identity]
        return send(start, b"", "204 No Content")
    if method == "PUT":
        table[identity].update(body_of(environ)[one])
    return reply(start, {one: table[identity]})


def body_of(environ):
    return json.loads(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)) or "{}")


def chosen(items, environ):
    query = urllib.parse.parse_qs(environ.get("QUERY_STRING", ""))
    return [
        item
        for item in items
        if all(name == "fields" or str(item.get(name)) in query[name] for name in query)
    ]


class Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    """One thread a request."""

    daemon_threads = True
    request_queue_size = 64


class Handler(simple_server.WSGIRequestHandler):
    """Keeps quiet."""

    def log_message(self, *arguments):
        pass


def serve(port, application):
    server = simple_server.make_server("127.0.0.1", port, application, Server, Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def main():
    serve(9292, glance)
    serve(9696, neutron)
    # Both read their configuration as they are imported, and answer each other's first question.
    from placement.wsgi import init_application

    serve(8778, init_application())
    from nova.wsgi.osapi_compute import application

    serve(8774, application)
    print("ready", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
