# SPDX-License-Identifier: Apache-2.0
"""nova-api and Placement, real ones, and stubs of Glance and Neutron, in one process.

Run by `up.sh` under Nova's Python with the file that is every image's content.
"""

import pathlib
import sys
import threading

import stubs
from serving import serve


def main():
    image = pathlib.Path(sys.argv.pop())
    serve(9292, stubs.Glance(image.read_bytes(), image.with_name("images")))
    serve(9696, stubs.neutron)
    # They read their configuration as they are imported, and answer each other's first question.
    from placement.wsgi import init_application

    serve(8778, init_application())
    from nova.wsgi.osapi_compute import application

    serve(8774, application)
    print("ready", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
