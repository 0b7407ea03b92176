# SPDX-License-Identifier: Apache-2.0
"""Serves WSGI applications on loopback, a thread a request."""

import socketserver
import threading
from wsgiref import simple_server


class Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    """One thread a request."""

    daemon_threads = True
    request_queue_size = 64


class Handler(simple_server.WSGIRequestHandler):
    """Keeps quiet."""

    def log_message(self, *arguments):
        pass


def serve(port, application):
    """Answer on a port from now on."""
    server = simple_server.make_server("127.0.0.1", port, application, Server, Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
