# SPDX-License-Identifier: Apache-2.0
"""Nova's own schema and loader take what provider-config writes."""

import pathlib
import tempfile

from iat_nova.agent.provider_config import Offer, ProviderConfigError, render, write
from tests.openstack.nova_venv import NovaCase

UUID = "6f9619ff-8b86-4011-b42d-00cf4fc964ff"


class ProviderConfigTest(NovaCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def load(self):
        return self.run_in_nova("providers.py", folder=str(self.folder))

    def test_loaded(self):
        """Trait and inventory arrive as they were meant, and are custom ones as Nova demands."""
        write(
            self.folder / "iat.yaml", render(Offer(6, 3, True), reasons=("a reason: with a colon",))
        )
        (provider,) = self.load().values()
        self.assertEqual({"uuid": "$COMPUTE_NODE"}, provider["identification"])
        self.assertEqual(["CUSTOM_IAT", "CUSTOM_IAT_DDIO"], provider["traits"]["additional"])
        (inventory,) = provider["inventories"]["additional"]
        self.assertEqual(
            {"total": 6, "reserved": 0, "min_unit": 1, "max_unit": 3, "step_size": 1,
             "allocation_ratio": 1.0},
            inventory["CUSTOM_IAT_LLC_WAY"],
        )  # fmt: skip

    def test_nodes(self):
        """Files for several nodes live side by side, by UUID and by name."""
        write(self.folder / "one.yaml", render(Offer(1, 1, False), UUID))
        write(self.folder / "two.yaml", render(Offer(2, 2, True), "compute-7"))
        self.assertEqual({UUID, "compute-7"}, set(self.load()))

    def test_the_trap_is_real(self):
        """What `write` refuses is what would have kept nova-compute from starting."""
        write(self.folder / "one.yaml", render(Offer(1, 1, False)))
        with self.assertRaises(ProviderConfigError):
            write(self.folder / "two.yaml", render(Offer(2, 2, True)))
        self.assertEqual(["$COMPUTE_NODE"], list(self.load()))
        (self.folder / "two.yaml").write_text(render(Offer(2, 2, True)))
        self.assertIn("multiple definitions", self.load()["error"])
