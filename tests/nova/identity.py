# SPDX-License-Identifier: Apache-2.0
"""Keystone, a real one: its database is made, then it is served.

Run by `up.sh` under Nova's Python; arguments: the configuration, the administrator's password and
Keystone's address.
"""

import multiprocessing
import sys
import threading

import keystone.conf
from keystone.cmd import cli
from serving import serve


def make(config, password, url):
    """Do what ``keystone-manage`` does, in one process: its starts take longer than its work."""

    def manage(*words):
        keystone.conf.CONF.clear()  # else it is one command a process
        cli.main(["keystone-manage", "--config-file", config, *words])

    manage("db_sync")
    manage("fernet_setup", "--keystone-user", "root", "--keystone-group", "root")
    # Without an internal address keystonemiddleware finds no Keystone in the catalogue.
    urls = [f"--bootstrap-{kind}-url={url}" for kind in ("public", "internal", "admin")]
    manage("bootstrap", f"--bootstrap-password={password}", "--bootstrap-region-id=One", *urls)


def main():
    arguments, sys.argv[1:] = sys.argv[1:], []  # Keystone's application reads them too
    # Keystone's back ends are made once a process: here for the commands, below for the service.
    making = multiprocessing.get_context("fork").Process(target=make, args=arguments)
    making.start()
    making.join()
    if making.exitcode:
        sys.exit("Keystone's database could not be made; see keystone.log")
    from keystone.wsgi.api import application

    serve(5000, application)
    print("ready", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
