# SPDX-License-Identifier: Apache-2.0
"""The sentences of the configuration: files and options that cannot be used."""

from collections.abc import Mapping

SENTENCES: Mapping[str, str] = {
    # files
    "config-absent": "configuration file not found or not readable: {files:list}",
    "config-denied": "configuration file not readable: {files:list}; run as the agent's user or as "
    "root",
    "config-no-text": "a configuration file is not UTF-8 text: {error}",
    "config-file-no-text": "configuration file {file}: is not UTF-8 text: {error}",
    "config-circular": "configuration file {files:or}: the value of an option refers to itself; "
    "write $$ for a dollar sign",
    "config-folder": "configuration folder {folder}: {error}",
    "config-refused": "configuration file {files:or}: {error}",
    # options
    "option-needs-port-dca": "[iat] {option} needs [iat] port_dca = true",
    "option-no-address": "[iat] {option}: invalid PCI address {found!r}: expected 0000:3a:00.0",
    "option-too-large": "[iat] {option}: found {found}, expected a number up to {most}",
    "option-port-twice": "[iat] {option}: {port} is in dca_off_ports, too; name the port in one "
    "of the two options",
    "emulated-without-scenario": "[iat] hardware = emulated needs [iat] emulated_scenario",
    "platform-absent": "[iat] hardware = {name}: no platform of this name is installed here",
    "metrics-extra-absent": "[iat] metrics_port is set, which needs the extra [metrics] "
    "({error}): {command}",
    "metrics-not-served": "[iat] metrics_address {address}, metrics_port {port}: cannot listen "
    "there: {error}",
    "logging-refused": "logging cannot be set up: {error}",
}
