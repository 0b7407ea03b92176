# SPDX-License-Identifier: Apache-2.0
"""No content of OVSDB, of a domain's XML or of a spooled file raises; it is read or warned of."""

import contextlib
import pathlib
import tempfile
import types
import unittest
from xml.sax import saxutils

from hypothesis import given, settings
from hypothesis import strategies as st

from iat_nova.inventory import domain_xml, ovs, pinning, pmd
from iat_nova.inventory.cpu_policy import CpuSets
from iat_nova.inventory.ovs_rpc import OvsUnavailableError
from iat_nova.inventory.pci import Pci
from iat_nova.inventory.spool import Spool, SpoolError
from iat_nova.model import VirtualSwitch
from tests import nova_shapes as shapes

DIGITS = st.integers(1, 6000).map(lambda count: "9" * count)
TEXTS = st.one_of(DIGITS, st.text(max_size=20), st.sampled_from(["0-3", "^1", "-", "4294967295"]))
PLAIN = st.text(st.characters(min_codepoint=32, max_codepoint=0xD7FF), max_size=20)
OPTIONS = st.dictionaries(st.sampled_from(["n_rxq", "n_rxq_desc", "dpdk-devargs"]), TEXTS)
CONFIG = st.fixed_dictionaries({"dpdk-init": st.just("true"), "pmd-cpu-mask": TEXTS})
FEW = settings(derandomize=True, max_examples=60, deadline=None)


class HostileTest(unittest.TestCase):
    @FEW
    @given(TEXTS, OPTIONS, CONFIG)
    def test_ovsdb(self, name, options, config):
        """Rows of any text."""
        interface = types.SimpleNamespace(
            name=name, type=name, external_ids={}, options=options, mtu=[]
        )
        port = types.SimpleNamespace(interfaces=[interface])
        bridge = types.SimpleNamespace(name=name, datapath_type="netdev", ports=[port])
        root = types.SimpleNamespace(other_config=config, dpdk_initialized=True)
        tables = ovs.read_tables({"Open_vSwitch": [root], "Bridge": [bridge]})
        switch = VirtualSwitch(tables.bridges, tables.ports, ())
        self.assertEqual(1, len(switch.resolved(Pci("/sys").cards).ports))

        def ask():
            raise OvsUnavailableError("closed")

        pmd.find(config, ask, pathlib.Path("/nonexistent"))

    @FEW
    @given(PLAIN, st.one_of(DIGITS, PLAIN), st.one_of(DIGITS, PLAIN))
    def test_domain_xml(self, vcpus, cpuset, pin):
        """Attributes of any text; the guest is placed whatever they are."""
        safe = [saxutils.escape(text, {"'": "&apos;"}) for text in (vcpus, cpuset, pin)]
        tune = shapes.cputune({0: safe[2]}, safe[1])
        xml = shapes.domain("a", run=1, vcpus=safe[0], cpuset=safe[1], tune=tune)
        domain = domain_xml.parse(xml, uuid="u", name="a", run=1)
        pinning.place([(domain, {})], CpuSets.parse("4-7", "0-3"), frozenset(range(8)))

    @FEW
    @given(st.binary(max_size=200))
    def test_spool(self, content):
        """Files of any bytes."""
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "u.json").write_bytes(content)
            with contextlib.suppress(SpoolError):
                Spool(folder).extra_specs_of("u")
