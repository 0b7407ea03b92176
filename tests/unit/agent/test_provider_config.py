# SPDX-License-Identifier: Apache-2.0
"""provider.yaml: rendered, refused with a reason, written whole or not at all."""

import contextlib
import dataclasses
import io
import os
import pathlib
import sqlite3
import tempfile
import threading
import time
import unittest
from unittest import mock

import yaml

from iat_nova import conf, policy
from iat_nova.agent import provider_config
from iat_nova.agent.provider_config import Offer, ProviderConfigError, offered, render, write
from iat_nova.cmd.main import main
from iat_nova.model import message, verbatim
from iat_nova.report import sentences
from iat_nova.store.records import Placement
from iat_nova.store.writer import History
from tests.said import raises
from tests.unit import stories
from tools import demo_host

OFFER = Offer(6, 3, True)


class RenderTest(unittest.TestCase):
    def test_content(self):
        """Placement sees the total, and as most for one guest what one socket has."""
        text = render(OFFER, reasons=("cache domain 0: all sorts\nof things",))
        self.assertIn("# cache domain 0: all sorts of things\n", text)
        (provider,) = yaml.safe_load(text)["providers"]
        self.assertEqual({"uuid": "$COMPUTE_NODE"}, provider["identification"])
        self.assertEqual(
            [{"CUSTOM_IAT_LLC_WAY": {
                "total": 6, "reserved": 0, "min_unit": 1, "max_unit": 3, "step_size": 1,
                "allocation_ratio": 1.0}}],
            provider["inventories"]["additional"],
        )  # fmt: skip
        self.assertEqual(["CUSTOM_IAT", "CUSTOM_IAT_DDIO"], provider["traits"]["additional"])

    def test_no_ddio(self):
        """Where DDIO's ways are fixed the second trait is missing."""
        (provider,) = yaml.safe_load(render(Offer(1, 1, False)))["providers"]
        self.assertEqual(["CUSTOM_IAT"], provider["traits"]["additional"])

    def test_the_least_of_a_mask(self):
        """Placement refuses a guest fewer ways than a mask has: it would count too few."""
        for offer, units in (
            (Offer(6, 3, True, min_unit=2), (2, 3)),
            (Offer(0, 0, True, withdrawn=True, min_unit=2), (2, 2)),
        ):
            (provider,) = yaml.safe_load(render(offer))["providers"]
            (inventory,) = provider["inventories"]["additional"]
            ways = inventory["CUSTOM_IAT_LLC_WAY"]
            self.assertEqual(units, (ways["min_unit"], ways["max_unit"]))

    def test_withdrawn(self):
        """All is reserved and no trait is set; Placement takes no inventory of nothing."""
        for total, written in ((6, 6), (0, 1)):
            text = render(Offer(total, 3, True, withdrawn=True))
            (provider,) = yaml.safe_load(text)["providers"]
            (inventory,) = provider["inventories"]["additional"]
            ways = inventory["CUSTOM_IAT_LLC_WAY"]
            self.assertEqual((written, written), (ways["total"], ways["reserved"]))
            self.assertNotIn("traits", provider)

    def test_named_node(self):
        """A node is told by UUID or by name, whatever the name holds."""
        uuid = "6f9619ff-8b86-4011-b42d-00cf4fc964ff"
        for node, key in ((uuid, "uuid"), ("cn'1\": <x>", "name"), ("yes", "name")):
            (provider,) = yaml.safe_load(render(OFFER, node))["providers"]
            self.assertEqual({key: node}, provider["identification"])

    def test_nothing_left(self):
        """Placement takes no inventory of nothing; the reason says where the ways are."""
        with raises(self, ProviderConfigError, "no LLC way is left.*11 ways - 11"):
            render(Offer(0, 0, True, (verbatim("11 ways - 11"),)))


class WriteTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.path = self.folder / "iat-nova.yaml"

    def test_replaces(self):
        """The new text is there whole, readable for Nova, and nothing lies beside it."""
        self.path.write_text("old")
        write(self.path, render(OFFER))
        self.assertEqual(render(OFFER), self.path.read_text())
        self.assertEqual(0o644, self.path.stat().st_mode & 0o777)
        self.assertEqual([self.path.name], os.listdir(self.folder))

    def test_never_half_to_nova(self):
        """A reader of *.yaml sees one of the two texts, never a part or a third file."""
        texts = {render(Offer(n, n, True), reasons=("x" * 4000 * n,)) for n in (1, 9)}
        write(self.path, min(texts))
        done = threading.Event()

        def rewrite():
            for _ in range(40):
                for text in texts:
                    write(self.path, text)
            done.set()

        writer = threading.Thread(target=rewrite)
        writer.start()
        reads = 0
        while not done.is_set() or not reads:
            (found,) = self.folder.glob("*.yaml")
            self.assertIn(found.read_text(), texts)
            reads += 1
        writer.join()

    def test_a_failed_write_leaves_the_old_file(self):
        """When the new file cannot take its place nothing is left of it."""
        self.path.mkdir()
        with self.assertRaises(OSError):
            write(self.path, render(OFFER))
        self.assertEqual([self.path.name], os.listdir(self.folder))

    def test_a_second_description_of_a_node(self):
        """nova-compute would not start with both, so the second is not written."""
        other = self.folder / "gpu.yaml"
        other.write_text(render(OFFER))
        with raises(self, ProviderConfigError, r"gpu.yaml describes \$COMPUTE_NODE too"):
            write(self.path, render(OFFER))
        self.assertFalse(self.path.exists())
        write(self.path, render(OFFER, "compute-7"))
        self.assertTrue(self.path.exists())

    def test_a_broken_neighbour(self):
        """A file that already keeps nova-compute from starting is named."""
        (self.folder / "broken.yaml").write_text("a: [")
        with raises(self, ProviderConfigError, "broken.yaml is not YAML"):
            write(self.path, render(OFFER))


class OfferedTest(unittest.TestCase):
    """What is read back of a file that Nova reads."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.path = self.folder / "some.yaml"

    def read(self, text):
        self.path.write_text(text)
        return offered(self.path)

    def test_what_was_written(self):
        """Every offer comes back as it was."""
        for made in (
            Offer(6, 3, True),
            Offer(1, 1, False),
            Offer(6, 3, False, withdrawn=True),
            Offer(6, 3, True, min_unit=2),
        ):
            self.assertEqual(made, self.read(render(made)))

    def test_of_others(self):
        """A file without anything of ours says nothing; a trait alone is an offer."""
        self.assertIsNone(self.read("meta: {schema_version: '1.0'}\n"))
        theirs = "providers: [{inventories: {additional: [{CUSTOM_GPU: {total: 1}}]}}]\n"
        self.assertIsNone(self.read(theirs))
        ours = "providers: [{traits: {additional: [CUSTOM_X, CUSTOM_IAT]}}]\n"
        self.assertEqual(("CUSTOM_IAT",), self.read(ours).traits)

    def test_nothing_it_holds_is_too_much(self):
        """Whatever it holds, it is read, or refused with its name."""
        bomb = "a: &a {x: 1}\n" + "".join(
            f"{chr(98 + n)}: &{chr(98 + n)} {{<<: [{', '.join(['*' + chr(97 + n)] * 9)}]}}\n"
            for n in range(9)
        )
        self.assertIsNone(self.read(bomb))
        for text in ("[" * 5000, "[]", "providers: 3", "providers: [3]", "a: [", "x" * (1 << 17),
                     "providers: [{inventories: {additional: [{CUSTOM_IAT_LLC_WAY: {}}]}}]",
                     "providers: [{traits: {additional: [[1]]}}]"):  # fmt: skip
            refused = raises(self, ProviderConfigError, "some.yaml cannot be understood")
            with self.subTest(text[:60]), refused:
                self.read(text)
        self.path.write_bytes(b"\xff\xfe\xfa")
        with self.assertRaises(ProviderConfigError):
            offered(self.path)


class DisagreementTest(unittest.TestCase):
    """What the agent says of the files that Nova reads."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.path = self.folder / "iat.yaml"
        self.facts = stories.facts()
        self.policy = policy.default(self.facts.host)

    def said(self, mode="enforce", facts=None):
        config = self.folder / "nova.conf"
        config.write_text(
            f"[iat]\nmode = {mode}\novsdb_connection = none\n"
            f"[compute]\nprovider_config_location = {self.folder}\n"
        )
        settings = conf.load([config])
        found = provider_config.compare(settings, self.policy, facts or self.facts)
        self.placement, said = found
        return said

    def test_no_file_is_no_disagreement(self):
        """Placement need not be used; nor does another's file matter."""
        self.assertIsNone(self.said())
        self.path.write_text("meta: {schema_version: '1.0'}\n")
        self.assertIsNone(self.said())

    def test_the_mode(self):
        """A host that observes offers nothing, one that enforces what it can keep."""
        can = Offer(4, 4, True)
        for mode, written, able in (
            ("enforce", can, None),
            ("observe", can, Offer(0, 0, True, withdrawn=True)),
            ("observe", dataclasses.replace(can, withdrawn=True), None),
            ("enforce", dataclasses.replace(can, withdrawn=True), can),
        ):
            with self.subTest(mode=mode, written=written):
                write(self.path, render(written))
                said = self.said(mode)
                differs = said and (said.code, said.values["offered"], said.values["able"])
                wanted = able and ("placement-differs", written.message, able.message)
                self.assertEqual(wanted, differs)

    def test_both_sides_are_shown(self):
        """What is offered to new guests, and what could be, are in the status and the metrics."""
        traits = ("CUSTOM_IAT", "CUSTOM_IAT_DDIO")
        self.said()
        self.assertEqual(Placement(4, traits), self.placement)
        write(self.path, render(Offer(3, 3, False)))
        self.said()
        self.assertEqual(Placement(4, traits, 3, traits[:1]), self.placement)
        write(self.path, render(Offer(3, 3, False, withdrawn=True)))
        self.said("observe")
        self.assertEqual(Placement(0, (), 0, ()), self.placement)

    def test_policy_and_host(self):
        """Other numbers or other traits are told, with the command that mends it."""
        for other in (Offer(3, 3, True), Offer(4, 3, True), Offer(4, 4, False)):
            write(self.path, render(other))
            said = self.said()
            self.assertEqual("placement-differs", said.code)
            self.assertEqual(str(self.path), said.values["path"])
        text = "parameters: {ddio_ways_max: 10}\n"
        self.policy = policy.parse(text, self.facts.host)
        said = self.said()
        self.assertEqual("placement-withdraw", said.code)
        (reason,) = said.values["reasons"]
        self.assertIn(message("less-ddio", count=10), reason.values["less"])

    def test_the_least_of_a_mask(self):
        """A CPU without masks of one way offers none; a file that offers one way is told."""
        (seen,) = self.facts.host.domains
        wide = dataclasses.replace(seen, min_ways=2)
        host = dataclasses.replace(self.facts.host, domains=(wide,))
        facts = dataclasses.replace(self.facts, host=host)
        able = Offer(3, 3, True, min_unit=2)
        write(self.path, render(dataclasses.replace(able, min_unit=1)))
        said = self.said(facts=facts)
        self.assertEqual(("placement-differs", able.message), (said.code, said.values["able"]))
        self.assertIn("3 ways, 2 to 3 a guest", sentences.text(said))
        self.assertIn("a mask of this CPU has 2 ways at least", sentences.text(said))
        write(self.path, render(able))
        self.assertIsNone(self.said(facts=facts))

    def test_less_than_a_mask_is_left(self):
        """One way is no offer where a mask has two: Placement would let a guest take two."""
        (seen,) = self.facts.host.domains
        wide = dataclasses.replace(seen, min_ways=2)
        host = dataclasses.replace(self.facts.host, domains=(wide,))
        facts = dataclasses.replace(self.facts, host=host)
        self.policy = policy.parse("pool: {ways: {min: 4, initial: 4}}\n", host)
        write(self.path, render(Offer(1, 2, True, min_unit=2)))
        said = self.said(facts=facts)
        self.assertEqual("placement-withdraw", said.code)
        self.assertEqual(0, self.placement.able_ways)

    def test_a_file_that_nova_cannot_read(self):
        """It is told before nova-compute meets it."""
        self.path.write_text("a: [")
        self.assertEqual("placement-unreadable", self.said().code)

    def test_a_folder_that_cannot_be_examined(self):
        """It is told, too; the loop goes on. No file is said to be wrong."""
        refused = PermissionError(13, "Permission denied")
        with mock.patch.object(pathlib.Path, "iterdir", side_effect=refused):
            said = self.said()
            with raises(self, ProviderConfigError, "cannot be examined: Permission denied"):
                write(self.path, "")
        self.assertEqual(
            f"folder {self.folder} cannot be examined: Permission denied; what Placement was "
            "offered is not known",
            sentences.text(said),
        )

    def test_no_folder(self):
        """Nothing is offered without a folder, or with a file in its place."""
        file = self.folder / "file"
        file.touch()
        for folder in (self.folder / "none", file):
            self.assertEqual([], provider_config.files(folder))


class CommandTest(unittest.TestCase):
    """`iat-nova provider-config` on what the agent recorded."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        clock = stories.SetClock()
        path = self.folder / "history.sqlite"
        with contextlib.closing(
            History(path, max_age_s=1e6, max_bytes=1 << 23, clock=clock)
        ) as history:
            stories.tell(history, clock=clock)
        self.policy = self.folder / "policy.yaml"
        self.output = self.folder / "provider.yaml"

    def run_command(self, *arguments, ovsdb="none", more=""):
        config = self.folder / "nova.conf"
        config.write_text(
            f"[iat]\nmode = enforce\nstate_dir = {self.folder}\n"
            f"ovsdb_connection = {ovsdb}\n{more}"
            + (f"policy_file = {self.policy}\n" if self.policy.exists() else "")
        )
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main(["provider-config", "--config-file", str(config), *arguments])
        return status, out.getvalue(), err.getvalue()

    def test_shown(self):
        """11 ways less DDIO's 6 and the pool's 1; the arithmetic is in the text."""
        status, out, err = self.run_command()
        self.assertEqual(0, status)
        self.assertRegex(err, "^iat-nova: the agent is not running")
        self.assertIn("11 ways - 6 that DDIO may take - 1 of the pool leave 4", out)
        (inventory,) = yaml.safe_load(out)["providers"][0]["inventories"]["additional"]
        self.assertEqual(4, inventory["CUSTOM_IAT_LLC_WAY"]["total"])

    def test_a_switch_that_was_not_reached(self):
        """Where there is an Open vSwitch, its ways are kept back even while it is silent."""
        _, out, _ = self.run_command(ovsdb="unix:/nowhere")
        comment = " ".join(out.replace("#", "").split())
        self.assertIn("- 1 of the stack - 1 of the pool leave 3", comment)

    def test_an_old_record(self):
        """A month later the host itself is asked, and the operator is told why and what to do."""
        demo_host.write_sysfs(self.folder / "sys")
        emulated = (
            "hardware = emulated\nemulated_scenario = two-sockets-remote-vf\n"
            f"sysfs_root = {self.folder}/sys\n"
        )
        for age_s, words, domains in (
            (23 * 3600, "the agent is not running.* is 23 h old$", 1),
            (31 * 86400, "recorded .* is 31 d old and is not used.*start iat-nova-agent", 2),
        ):
            with contextlib.closing(sqlite3.connect(self.folder / "history.sqlite")) as database:
                database.execute("UPDATE beat SET written_s = ?", (time.time() - age_s,))
                database.commit()
            status, out, err = self.run_command(more=emulated)
            self.assertEqual(0, status, err)
            self.assertRegex(err, words)
            self.assertEqual(domains, out.count("# cache domain"))

    def test_written(self):
        """The file is what would have been shown, and the operator is told what is next."""
        _, shown, _ = self.run_command()
        status, out, err = self.run_command("-o", str(self.output))
        self.assertEqual((0, "", shown), (status, out, self.output.read_text()))
        self.assertIn("restart nova-compute", err)

    def test_observing(self):
        """A host that keeps no ways for anyone offers none, and says so."""
        status, out, err = self.run_command("-o", str(self.output), more="mode = observe\n")
        self.assertEqual((0, ""), (status, out), err)
        self.assertEqual(Offer(4, 4, False, withdrawn=True), offered(self.output))
        self.assertIn("it offers nothing: mode = observe", err)
        self.assertIn("Remove it only when no guest has ways", err)

    def test_withdrawn(self):
        """What a file offers is reserved, whatever the host is now; without a file what it has."""
        self.run_command("-o", str(self.output))
        self.policy.write_text("parameters: {ddio_ways_max: 10}\n")
        status, _, err = self.run_command("--withdraw", "-o", str(self.output))
        self.assertEqual(0, status, err)
        self.assertEqual(Offer(4, 4, False, withdrawn=True), offered(self.output))
        self.assertIn("Remove it only when no guest has ways", err)
        self.output.unlink()
        status, _, err = self.run_command("--withdraw", "-o", str(self.output))
        self.assertEqual(0, status, err)
        self.assertEqual(Offer(1, 1, False, withdrawn=True), offered(self.output))

    def test_nothing_left(self):
        """A policy that leaves nothing is refused with the sum, and the old file stays."""
        self.output.write_text("old")
        self.policy.write_text("parameters: {ddio_ways_max: 10}\n")
        status, out, err = self.run_command("-o", str(self.output))
        self.assertEqual((1, ""), (status, out))
        self.assertIn("11 ways - 10 that DDIO may take - 1 of the pool leave 0", err)
        self.assertIn("stays as it was", err)
        self.assertIn("iat-nova provider-config --withdraw", err)
        self.assertEqual("old", self.output.read_text())

    def test_a_broken_policy(self):
        """It is refused with its line."""
        self.policy.write_text("parameters: {ddio_ways_max: many}\n")
        status, _, err = self.run_command()
        self.assertEqual(1, status)
        self.assertIn("line 1: parameters.ddio_ways_max", err)

    def test_no_folder(self):
        """A folder that does not exist is named."""
        status, _, err = self.run_command("-o", str(self.folder / "no/provider.yaml"))
        self.assertEqual(1, status)
        self.assertIn(f"{self.folder}/no", err)
