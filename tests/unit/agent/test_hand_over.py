# SPDX-License-Identifier: Apache-2.0
"""From one agent to the next: on a whole host in a folder, whatever may come between."""

import contextlib
import dataclasses
import errno
import importlib.metadata
import json
import os
import shutil
import threading
import time
from unittest import mock

from iat_nova.agent import hand_over, restoring, sources, wiring
from iat_nova.agent.loop import Agent, ThreadDied
from iat_nova.agent.parts import Parts
from iat_nova.agent.policy_keeper import PolicyKeeper
from iat_nova.common.owned_folder import OwnedFolder
from iat_nova.conf import STATE_DIR_VARIABLE
from iat_nova.hardware.api import CoreCounts, Counts, HardwareError
from iat_nova.model import (
    DomainInventory,
    Facts,
    HostFacts,
    Parameters,
    Pause,
    Priority,
    WayMask,
    message,
)
from iat_nova.policy import Classified
from iat_nova.report.sentences import text
from iat_nova.strategies import registry
from tests.said import sentence
from tests.unit.build import Clock, tenant
from tests.unit.hardware import test_rootport
from tests.unit.hardware.enforcement import test_restore

VERSION = importlib.metadata.version("iat-nova")


class Counters:
    """Everybody counts the same, always."""

    def __init__(self, clock):
        self.clock = clock

    def watch(self, cpus):
        self.cpus = tuple(cpus)

    def read(self):
        count = int(self.clock.now_s * 1e6)
        cores = {cpu: CoreCounts(count, count, count, count) for cpu in self.cpus}
        return Counts(self.clock.now_s, cores, {})

    def close(self):
        pass


class Source:
    def __init__(self, host):
        self.host, self.changed = host, threading.Event()

    def facts(self):
        return Facts(self.host(), (), None)


@dataclasses.dataclass(frozen=True)
class Policy:
    """A guest on the second CPU of every domain, more where they are wanted."""

    more: tuple = ()
    reserved: WayMask = WayMask(0)
    parameters: Parameters = Parameters()
    warnings: tuple = ()
    effective: str = ""

    def classify(self, facts, io_before):
        guests = {0: [("g", (1,)), *self.more], 1: [("h", (3,))]}
        there = {
            domain.id: DomainInventory(domain, tuple(_tenant(*one) for one in guests[domain.id]))
            for seen in facts.host.domains
            for domain in (dataclasses.replace(seen, reserved_ways=self.reserved),)
        }
        return Classified(there, {}, (), {})


class Told:
    """The journal, of which decisions, what is told and what the status has are kept."""

    def __init__(self, told, decided, noted):
        self.tell = lambda said, _kind=None: told.append(said)
        self.adopted = lambda: noted.append("adopted")
        self.handed_over = lambda: noted.append("handed over")
        self.iteration = lambda state, sample, decision, *_others: decided.append(decision)

    def __getattr__(self, name):
        return lambda *_arguments: None


def _tenant(name, cpus):
    return tenant(name, *cpus, id=f"{name}/1", priority=Priority.PC)


class HandOverCase(test_restore.MachineCase):
    """Agents with a real strategy, and all but counters, policy and guests real."""

    def setUp(self):
        super().setUp()
        self.decided = []
        self.told = []
        self.noted = []
        self.pause = None
        self.strategy = "iat"
        self.loaded = None
        (self.folder / "run").mkdir(exist_ok=True)
        (self.folder / "state").mkdir(exist_ok=True)

    def settings(self, **changes):
        if self.loaded is None:
            self.loaded = super().settings()
        return dataclasses.replace(self.loaded, strategy=self.strategy, **changes)

    @property
    def files(self):
        return restoring.hand_over_files(self.settings())

    def life(self, *planned, seconds=1.2, policy=Policy(), **changes):
        """Let an agent live so long, and do what is planned, one a wait; its end is in order."""
        owned = self.owned(**changes)
        clock = Clock()
        clock.planned = list(planned)
        with owned.held(adopt=True) as left:
            read = sources.host_reader(self.settings(), owned.machine, left=left)

            def host():
                return HostFacts("h", read_domains(), tuple(sorted(self.cpus.on)))

            def read_domains():
                with mock.patch("iat_nova.agent.sources.read_host", lambda found, *a, **k: found):
                    return read()

            source, journal = Source(host), Told(self.told, self.decided, self.noted)
            parts = Parts(
                inventory=source,
                policies=PolicyKeeper(policy, lambda: policy, None, journal, source.changed),
                make_strategy=lambda parameters: registry.make(self.strategy, parameters),
                counters=Counters(clock),
                enforcer=wiring.enforcer(owned),
                journal=journal,
                clock=clock,
                paused=lambda wall_s: self.pause,
                outside=owned.outside(),
                succession=owned.succession,
                left=left,
            )
            self.agent = Agent(parts)
            self.first_found = host().domains[0].ddio_found
            self.agent.run(clock.now_s + seconds)

    def hand_over(self, **arguments):
        """Let an agent enforce and hand over, and the unit see it end."""
        self.life(self.files.ask, **arguments)
        self.assertNotEqual(self.found, self.tree.state())
        self.assertEqual(0, self.run_it("restore", "--unless-handed-over")[0])
        self.left = self.tree.state()
        self.assertNotEqual(self.found, self.left)

    @property
    def told_codes(self):
        """The codes of what the agents told."""
        return [one.code for one in self.told]

    @property
    def why_not(self):
        """Why an agent did not hand over, as it told."""
        (why,) = [one.values["error"] for one in self.told if one.code == "not-handed-over"]
        return text(why)

    def assert_begun_anew(self, reason):
        """The next agent says why it does not adopt, restores first, and its end restores."""
        with self.assertLogs("iat_nova", "WARNING") as logs:
            self.life()
        self.assertRegex("\n".join(logs.output), f"not adopted: .*{reason}")
        self.assertNotIn("adopted", self.told_codes)
        self.assertEqual(0x600, self.first_found)  # not what the first agent made of it
        self.assert_gone()

    def assert_gone(self):
        self.assert_as_found()
        self.assertEqual([], [p.name for p in self.folder.rglob("hand-over*")])


NOTHING = (lambda: None, lambda: None)  # planned for two waits: the first layout is there then


class LostSnapshot(HandOverCase):
    """The snapshot's file, or its folder, is lost under an agent that enforces."""

    def test_it_is_written_again(self):
        """At the next iteration, as it was; the end restores what was written."""
        path, seen = self.settings().snapshot_path, []

        def lose():
            seen.append(path.read_bytes())
            path.unlink()

        self.life(*NOTHING, lose, *NOTHING, lambda: seen.append(path.read_bytes()), seconds=9.0)
        self.assertEqual(seen[0], seen[1])
        self.assertIn(message("restored", parts=("resctrl",)), self.told)
        self.assert_gone()

    def test_lost_right_before_the_end(self):
        """With its folder, too: memory is enough."""
        path = self.settings().snapshot_path
        for lose in (path.unlink, lambda: shutil.rmtree(path.parent), lambda: path.write_text("{")):
            path.parent.mkdir(exist_ok=True)
            self.life(*NOTHING, lambda lose=lose: (lose(), self.agent.stop()), seconds=9.0)
            self.assert_gone()

    def test_no_place_to_write_it(self):
        """The original settings come back at once: a crash would leave the host changed."""
        state, seen = self.settings().snapshot_path.parent, []

        def lose():
            shutil.rmtree(state)
            state.write_text("a file in the way")

        self.life(*NOTHING, lose, *NOTHING, lambda: seen.append(self.tree.state()), seconds=9.0)
        self.assertEqual([self.found], seen)
        self.assertRegex(
            text(self.agent.interlock.reasons["refused"]), "state: is not a folder; without a"
        )

    def test_lost_before_a_hand_over(self):
        """What has no snapshot on disk is not handed over: the end restores."""
        state = self.settings().snapshot_path.parent

        def lose():
            shutil.rmtree(state)
            state.write_text("a file in the way")
            self.files.ask()
            self.agent.stop()

        self.life(*NOTHING, lose, seconds=9.0)
        self.assertIn(f"{state}: is not a folder", self.why_not)
        self.assertNotIn("handed over", self.noted)
        self.assertEqual(self.found, self.tree.state())


class HandOver(HandOverCase):
    """What both agents, and the unit between them, make of it."""

    def test_across_a_restart_nothing_is_written(self):
        """Groups and masks stay, the state goes on, and the end restores what the first found."""
        self.hand_over()
        self.assertEqual(["handed-over"], self.told_codes)
        before, self.tree.changes[:] = list(self.decided), []
        seen = []
        self.life(lambda: None, lambda: seen.append((list(self.tree.changes), self.tree.state())))
        self.assertEqual([([], self.left)], seen)
        self.assertEqual(0x600, self.first_found)
        self.assertEqual(("adopted", VERSION), (self.told[1].code, self.told[1].values["version"]))
        self.assertEqual(["handed over", "adopted"], self.noted)
        after = self.decided[len(before) :]
        for last, first in zip(before[-2:], after[:2], strict=True):
            self.assertEqual((last.domain, last.iteration + 1), (first.domain, first.iteration))
            self.assertEqual(last.layout, first.layout)
        self.assert_gone()

    def test_what_the_first_agent_found_of_ddio(self):
        """It is in the file: the register shows what an agent wrote."""
        self.hand_over()
        left = self.files.read()
        domains = [dataclasses.replace(one, ddio_found=WayMask(0x300)) for one in left.domains]
        self.files.write(dataclasses.replace(left, domains=tuple(domains)))
        self.life()
        self.assertEqual(0x300, self.first_found)

    def test_a_guest_that_came_meanwhile(self):
        """It is a change like any other: who was there keeps group and class."""
        self.hand_over()
        told = []
        more = (("new", (0,)),)
        self.life(*[lambda: told.append(self.tree.state())] * 3, policy=Policy(more))
        self.assertIn("iat-nova.1", str(told))
        self.assertEqual({"g/1", "new/1"}, set(self.decided[-2].allocation.tenants))
        self.assert_gone()

    def test_on_and_on(self):
        """The third agent restores what the first one found; a policy may reserve ways."""
        self.hand_over()
        self.hand_over()
        self.hand_over(policy=Policy(reserved=WayMask(0x1)))
        self.life(policy=Policy(reserved=WayMask(0x1)))
        self.assertEqual(["handed over", *["adopted", "handed over"] * 2, "adopted"], self.noted)
        self.assert_gone()

    def test_asked_long_ago(self):
        """A request is none after half a minute, and none that is of later."""
        for at_s in (-31.0, 61.0):
            now_s = time.monotonic() + at_s
            files = self.files
            files.now_s = lambda now_s=now_s: now_s
            files.ask()
            self.life()
            self.assert_as_found()

    def test_asked_by_a_file_that_cannot_be_read(self):
        """The agent restores, and says why it did not hand over."""
        self.life(self.files.ask, lambda: self.files.request.write_text("now\n"), seconds=5.0)
        self.assert_as_found()
        self.assertIn(str(self.files.request), self.why_not)

    def test_never(self):
        """hand_over_s = 0."""
        self.life(self.files.ask, hand_over_s=0.0)
        self.assert_as_found()

    def test_paused(self):
        """A pause holds the masks across the restart; nothing is decided."""
        self.hand_over()
        count = len(self.decided)
        self.pause = Pause(0.0)
        held = []
        self.life(self.files.ask, lambda: held.append(self.tree.state()))
        self.assertEqual(([self.left], count), (held, len(self.decided)))
        self.assertEqual(self.left, self.tree.state())
        self.life()
        self.assert_gone()

    def test_who_observes_hands_nothing_over(self):
        """A reason to write nothing holds at the end, too."""
        self.tree.mkdir("theirs")
        self.found = self.tree.state()
        self.life(self.files.ask)
        self.assertEqual(self.found, self.tree.state())
        self.assertFalse(self.settings().hand_over_path.exists())

    def test_who_could_not_restore_hands_nothing_over(self):
        """What is half restored is no layout: the end tries again."""

        def others():
            self.tree.mkdir("theirs")
            self.tree.fail_at, self.tree.dead = 0, True
            self.agent.inventory.changed.set()

        def back():
            self.tree.fail_at, self.tree.dead = None, False
            self.files.ask()

        self.life(lambda: None, others, back, seconds=2.2)
        self.assertTrue(self.agent.interlock.reasons)
        self.assertFalse(self.settings().hand_over_path.exists())
        self.tree.rmdir("theirs")
        self.assert_as_found()

    def test_a_cpu_that_was_offline_meanwhile(self):
        """It is back in its group: the kernel had forgotten that."""
        self.hand_over()
        self.tree.unplug(1)
        self.tree.plug(1)
        self.assertNotEqual(self.left, self.tree.state())
        held = []
        self.life(lambda: held.append(self.tree.state()))
        self.assertEqual([self.left], held)

    def test_cpus_that_are_offline_at_the_start(self):
        """A CPU, or a whole socket: what is online is adopted, the rest is managed when back."""
        for cpus in ((1,), (2, 3)):
            with self.subTest(cpus):
                self.hand_over()
                for cpu in cpus:
                    self.tree.unplug(cpu)
                    self.msr.off.add(cpu)

                def back(cpus=cpus):
                    self.msr.off.clear()
                    for cpu in cpus:
                        self.tree.plug(cpu)
                    self.agent.inventory.changed.set()

                held = []

                def look(held=held):
                    held.append(self.tree.state())

                self.told.clear()
                self.life(lambda: None, back, lambda: None, look, seconds=5.0)
                self.assertIn("adopted", self.told_codes)
                self.assertEqual([self.left], held)
                self.assert_as_found()

    def test_root_ports_are_not_handed_over(self):
        """Their bits are restored, and it is said."""
        test_rootport.Tree(self.roots.pci).add(test_rootport.PORT)
        (self.roots.pci / test_rootport.PORT / "local_cpulist").write_text("0-1\n")
        self.life(self.files.ask, port_dca=True, dca_ports=(test_rootport.PORT,))
        self.assertIn("port dca", self.why_not)
        self.assert_as_found()


class Ends(HandOverCase):
    """However it ends, somebody restores the host."""

    def test_a_file_that_cannot_be_written(self):
        """A disk that is full: the agent restores."""
        real = os.replace

        def replace(new, path, **folders):
            if str(path).endswith("hand-over.json"):
                raise OSError(errno.ENOSPC, "No space left on device")
            real(new, path, **folders)

        with mock.patch("os.replace", replace):
            self.life(self.files.ask)
        self.assertIn("No space left on device", self.why_not)
        self.assert_as_found()
        self.assertEqual([], list(self.settings().state_dir.iterdir()))

    def test_killed_while_it_writes(self):
        """Half a file has another name: the unit restores."""

        class Killed(BaseException):
            pass

        with (
            mock.patch.object(hand_over.HandOverFiles, "write", side_effect=Killed),
            mock.patch.object(restoring, "all_back"),
            mock.patch("iat_nova.agent.interlock.Interlock.restore"),
            contextlib.suppress(Killed),
        ):
            self.life(self.files.ask)
        self.settings().hand_over_path.with_suffix(".new").write_text('{"half"')
        self.assertNotEqual(self.found, self.tree.state())
        self.assertEqual(0, self.run_it("restore", "--unless-handed-over")[0])
        self.assert_as_found()

    def test_a_bug_at_the_end(self):
        """What ends by an error restores, asked or not."""
        with self.assertRaises(ZeroDivisionError):
            self.life(self.files.ask, lambda: 1 / 0)
        self.assert_as_found()

    def test_a_dead_thread(self):
        """The same."""
        with self.assertRaises(ThreadDied):
            self.life(self.files.ask, lambda: self.agent.fail("thread x ended"))
        self.assert_as_found()

    def test_a_start_that_fails_or_is_killed_before_it_took_the_file(self):
        """The unit's restore lets one end pass, that of the agent that handed over."""
        self.hand_over()
        _, out, _ = self.run_it("restore", "--unless-handed-over")
        self.assertIn("removed", out)
        self.assert_gone()

    def test_killed_after_it_took_the_file(self):
        """Nothing is left that a later end could take for a hand-over."""
        self.hand_over()
        owned = self.owned()
        with owned.snapshot.only_writer():
            self.assertIsNotNone(owned.succession.take())
        self.assertFalse(self.settings().hand_over_path.exists())
        self.assertEqual(0, self.run_it("restore", "--unless-handed-over")[0])
        self.assert_gone()

    def test_killed_after_it_took_the_file_and_started_again_at_once(self):
        """Without systemd the next start restores."""
        self.hand_over()
        owned = self.owned()
        with owned.snapshot.only_writer():
            owned.succession.take()
        self.life()
        self.assertNotIn("adopted", self.told_codes)
        self.assert_gone()

    def test_ended_before_its_loop(self):
        """Who has adopted restores, whatever ends it."""
        self.hand_over()
        with self.assertRaises(ZeroDivisionError), self.owned().held(adopt=True):
            raise ZeroDivisionError
        self.assert_gone()

    def test_nobody_comes(self):
        """What systemd runs then restores, unless an agent runs: that is responsible."""
        self.hand_over()
        owned = self.owned()
        with owned.snapshot.only_writer():
            # It may be the agent that ends: systemd asks again.
            self.assertEqual(1, self.run_it("restore", "--unless-taken")[0])
            self.assertIsNotNone(owned.succession.take())
            self.assertEqual(
                (0, "nothing to restore\n", ""), self.run_it("restore", "--unless-taken")
            )
            self.assertEqual(1, self.run_it("restore")[0])
        self.assertEqual(self.left, self.tree.state())
        self.life(self.files.ask)
        status, _, err = self.run_it("restore", "--unless-taken")
        self.assertEqual(1, status)
        self.assertIn("may be adopted yet", err)
        self.age(at_s=time.monotonic() - 61)
        self.assertEqual(0, self.run_it("restore", "--unless-taken")[0])
        self.assert_gone()

    def test_restored_by_hand_in_between(self):
        """What was left is restored, and the next agent begins anew."""
        self.hand_over()
        self.assertEqual(0, self.run_it("restore")[0])
        self.assert_gone()
        self.life()
        self.assertNotIn("adopted", self.told_codes)

    def test_another_writer_in_between(self):
        """`iat-nova qualify` restores first; then there is nothing to adopt."""
        self.hand_over()
        with (
            self.assertLogs("iat_nova", "WARNING") as logs,
            self.owned().held(),
        ):
            self.assertEqual(self.found, self.tree.state())
        path = str(self.settings().hand_over_path)
        self.assertIn(sentence(message("hand-over-unusable", path=path)), logs.output[-1])
        self.life()
        self.assertNotIn("adopted", self.told_codes)
        self.assert_gone()

    def nobody_takes_it(self):
        """Leave a file beside an agent that does not adopt; return how a timer's restore ends."""
        owned = self.owned()
        with owned.held():
            owned.snapshot.protect()
            self.change_all(owned)
            self.settings().hand_over_path.write_bytes(self.abandoned)
            enforced = self.tree.state()
            ends = [self.run_it("restore", "--unless-taken") for _ in range(2)]
            self.assertEqual(enforced, self.tree.state())
        self.assert_gone()
        return ends

    def test_a_file_that_no_agent_takes(self):
        """One of an older release runs, which knows no such file: systemd's restore ends."""
        self.hand_over()
        fresh = self.settings().hand_over_path.read_bytes()
        self.age(at_s=time.monotonic() - 61)
        old = self.settings().hand_over_path.read_bytes()
        self.assertEqual(0, self.run_it("restore")[0])
        for self.abandoned in (old, b"{", b""):
            first, second = self.nobody_takes_it()
            self.assertEqual(0, first[0])
            path = str(self.settings().hand_over_path)
            self.assertIn(sentence(message("hand-over-removed", path=path)), first[1])
            self.assertEqual((0, "nothing to restore\n", ""), second)
        owned = self.owned()
        with owned.held():
            self.settings().hand_over_path.write_bytes(fresh)  # the next agent may take it yet
            self.assertEqual(1, self.run_it("restore", "--unless-taken")[0])
            self.assertEqual(fresh, self.settings().hand_over_path.read_bytes())

    def test_a_file_without_a_snapshot(self):
        """It is removed, and nothing is restored from one that is old: others write by then."""
        self.hand_over()
        self.age(at_s=time.monotonic() - 121)
        old = self.settings().hand_over_path.read_bytes()
        self.assertEqual(0, self.run_it("restore")[0])
        self.settings().hand_over_path.write_bytes(old)
        self.msr.set(0, 0xC8B, 0x700)
        self.assertEqual((0, "nothing to restore\n", ""), self.run_it("restore"))
        self.assertEqual(0x700, self.msr.get(0, 0xC8B))
        self.assertFalse(self.settings().hand_over_path.exists())

    def test_an_agent_with_another_interface(self):
        """It restores, and removes the file that it cannot adopt."""
        self.hand_over()
        owned = self.owned()
        pqos = dataclasses.replace(owned, succession=None)
        with self.assertLogs("iat_nova", "WARNING") as logs, pqos.held(adopt=True) as left:
            self.assertIsNone(left)
            self.assertEqual(self.found, self.tree.state())
        path = str(self.settings().hand_over_path)
        self.assertIn(sentence(message("hand-over-unusable", path=path)), logs.output[-1])
        self.assert_gone()

    def test_a_hand_over_that_cannot_be_removed(self):
        """The host is restored all the same, and the reason is told."""
        self.hand_over()
        self.settings().hand_over_path.unlink()
        self.settings().hand_over_path.mkdir()
        status, _, err = self.run_it("restore")
        self.assertEqual(1, status)
        self.assertRegex(err, "removed .*iat-nova.1.*; but .*hand-over.json: Is a directory")
        self.assertEqual(self.found, self.tree.state())
        self.settings().hand_over_path.rmdir()
        self.assert_as_found()

    def age(self, **changes):
        """Have what was left be otherwise."""
        files = self.files
        files.write(dataclasses.replace(files.read(), **changes))

    def test_too_late(self):
        """A file is none after a minute, for the unit and for the agent."""
        self.hand_over()
        self.age(at_s=time.monotonic() - 61)
        self.files.ask()
        self.life()
        self.assertNotIn("adopted", self.told_codes)
        self.assert_gone()
        self.life(self.files.ask)
        self.age(at_s=time.monotonic() - 61)
        self.assertEqual(0, self.run_it("restore", "--unless-handed-over")[0])
        self.assert_gone()

    def test_a_reboot(self):
        """A file of another boot is none."""
        self.hand_over()
        left = self.files.read()
        other = self.folder / "boot_id"
        other.write_text("another\n")
        files = hand_over.HandOverFiles(self.files.path, self.files.request, 60.0, boot_id=other)
        files.write(left)
        self.assertIsNone(self.files.read())
        self.life()
        self.assertNotIn("adopted", self.told_codes)
        self.assert_gone()

    def test_a_damaged_file(self):
        """It is none, and it is said."""
        self.hand_over()
        path = self.settings().hand_over_path
        content = json.loads(path.read_text())
        content["parts"]["left"]["strategy"] = "a4"
        path.write_text(json.dumps(content))
        self.assert_begun_anew("a damaged one")

    def test_another_form(self):
        """A version that keeps other states begins anew."""
        self.hand_over()
        self.age(states={0: {"iteration": "none"}})
        self.assert_begun_anew("another form")

    def test_content_that_contradicts_itself(self):
        """A tenant, domain, group or mask that cannot be: nothing is adopted."""
        self.hand_over()
        left, path = self.files.read(), self.settings().hand_over_path
        first, second = left.enforcer.written.values()
        nobody = dataclasses.replace(
            first, inventory=dataclasses.replace(first.inventory, tenants=())
        )
        state = left.states[0]
        forgets = {**state, "layout": {**state["layout"], "groups": []}}
        for reason, part, changes in (
            ("g/1 has 1 masks, expected 0", "enforcer", {"written": {0: nobody, 1: second}}),
            ("one of another domain", "enforcer", {"written": {0: second, 1: first}}),
            ("DDIO of cache domain 1 was", "enforcer", {"found": {1: WayMask(0)}}),
            ("left groups of cache domains", "resctrl", {"slots": {0: {}, 1: {}}}),
            ("g/1 has 0 masks, expected 1", None, {"states": {0: forgets}}),
        ):
            with self.subTest(reason):
                if not path.exists():
                    self.hand_over()
                if part is None:
                    self.age(**changes)
                else:
                    self.age(**{part: dataclasses.replace(getattr(left, part), **changes)})
                self.assert_begun_anew(reason)

    def test_another_strategy(self):
        """Its states mean nothing to this one."""
        self.hand_over()
        self.strategy = "pollute-buffer"
        changed = message("strategy-changed", before="iat", now="pollute-buffer")
        self.assert_begun_anew(sentence(changed))

    def test_a_strategy_that_is_no_longer_installed(self):
        """Everything is restored before the agent says what to install."""
        self.hand_over()
        gone = registry.StrategyError("strategy 'iat' comes with another package")
        with mock.patch.object(registry, "state_type", side_effect=gone):
            self.assert_begun_anew("comes with another package")

    def test_a_snapshot_that_is_gone(self):
        """Its copy is handed over: it is written again, and adopted."""
        path = self.settings().snapshot_path
        for spoil in (path.unlink, lambda: path.write_text("{")):
            self.hand_over()
            spoil()
            with self.assertLogs("iat_nova", "WARNING") as logs:
                self.life()
            self.assertRegex("\n".join(logs.output), "written again from what was handed over")
            self.assertEqual("adopted", self.told_codes[-2])
            self.assert_gone()

    def test_a_snapshot_that_is_gone_and_nobody_comes(self):
        """systemd's restore has the copy, too."""
        self.hand_over()
        self.settings().snapshot_path.unlink()
        self.age(at_s=time.monotonic() - 62)
        self.assertEqual(0, self.run_it("restore", "--unless-taken")[0])
        self.assert_gone()

    def full(self):
        """Have no space left for a snapshot."""
        full = OSError(errno.ENOSPC, "No space left on device", "snapshot.json")
        return mock.patch.object(OwnedFolder, "replace", side_effect=full)

    def test_a_snapshot_that_is_gone_and_a_full_disk(self):
        """The host is restored from the copy, by the next agent and by the command."""
        self.hand_over()
        self.settings().snapshot_path.unlink()
        owned = self.owned()
        ours = owned.held(adopt=True)
        with self.full(), self.assertLogs("iat_nova", "WARNING") as logs, ours as left:
            self.assertIsNone(left)
        self.assertRegex("\n".join(logs.output), "not adopted: .*No space left")
        self.assert_gone()
        self.hand_over()
        self.settings().snapshot_path.unlink()
        with self.full():
            self.assertEqual(0, self.run_it("restore")[0])
        self.assert_gone()

    def test_a_full_disk_and_a_restore_that_is_refused(self):
        """The copy stays on disk, in what was handed over, for the next."""
        self.hand_over()
        self.settings().snapshot_path.unlink()
        self.tree.fail_at, self.tree.dead = 0, True
        with self.full():
            self.assertEqual(1, self.run_it("restore")[0])
            with self.assertRaises(HardwareError):
                self.enterContext(self.owned().held(adopt=True))
        self.tree.fail_at, self.tree.dead = None, False
        self.assertEqual(0, self.run_it("restore")[0])
        self.assert_gone()

    def test_a_snapshot_that_is_gone_and_another_form(self):
        """The copy is read whatever the rest of the content is."""
        self.hand_over()
        self.settings().snapshot_path.unlink()
        self.age(states={0: {"iteration": "none"}}, fixed=("none",))
        self.msr.set(0, 0xC8B, 0x700)
        with self.assertLogs("iat_nova", "WARNING") as logs:
            self.life()
        self.assertRegex("\n".join(logs.output), "(?s)written again from .*another form")
        self.assert_gone()

    def test_a_copy_that_is_none(self):
        """Nothing of it is written: nobody knows how the host was, and that is said."""
        self.hand_over()
        self.settings().snapshot_path.unlink()
        self.age(saved={"ddio msr": {"0": 7}})
        ddio = self.msr.get(0, 0xC8B)
        with self.assertLogs("iat_nova", "WARNING") as logs:
            self.life()
        self.assertRegex("\n".join(logs.output), "not adopted: .*the copy of it is damaged")
        self.assertEqual(ddio, self.msr.get(0, 0xC8B))
        self.assertNotIn("iat-nova.1", str(self.tree.state()))

    def test_hardware_that_changed(self):
        """Masks, CPUs, groups, DDIO's ways, a cache domain: all is as it was left, or none is."""
        changes = {
            "changed by another program since the hand-over: iat-nova.1: L3:0": lambda: (
                self.tree.write("iat-nova.1/schemata", "L3:0=1\n")
            ),
            "changed by another program since the hand-over: iat-nova.1: CPUs 0 were": lambda: (
                self.tree.write("iat-nova.1/cpus_list", "0-1,3")
            ),
            "the last agent left the groups": lambda: self.tree.mkdir("iat-nova.7"),
            "DDIO is at .*, the agent left": lambda: self.msr.set(0, 0xC8B, 0x7F0),
            "the cache domains are not": lambda: self.put(
                self.cpus.root / "cpu0/cache/index3/size", "1024K\n"
            ),
        }
        for reason, change in changes.items():
            with self.subTest(reason):
                self.hand_over()
                change()
                with self.assertLogs("iat_nova", "WARNING") as logs:
                    self.life()
                self.assertRegex("\n".join(logs.output), f"not adopted: .*{reason}")
                self.assertEqual(0x600, self.first_found)
                self.assertEqual(0x600, self.msr.get(0, 0xC8B))
                self.assertFalse(self.settings().snapshot_path.exists())
                self.assert_gone()

    def test_a_restore_that_is_refused(self):
        """The snapshot stays for the next; what was handed over does not."""
        self.hand_over()
        self.tree.fail_at, self.tree.dead = 0, True
        self.assertEqual(1, self.run_it("restore")[0])
        self.assertTrue(self.settings().snapshot_path.exists())
        self.assertFalse(self.settings().hand_over_path.exists())
        self.tree.fail_at, self.tree.dead = None, False
        self.assertEqual(0, self.run_it("restore", "--unless-handed-over")[0])
        self.assert_gone()


class Command(HandOverCase):
    """`iat-nova hand-over`, with programs in systemd's place."""

    def setUp(self):
        super().setUp()
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        self.program("systemctl", "echo '12 iat-nova-agent.service restart running'")
        self.program("systemd-run", f'echo "$@" >> {self.folder}/asked')
        path = mock.patch.dict(os.environ, PATH=f"{self.bin}:{os.environ['PATH']}")
        self.enterContext(path)
        alive = mock.Mock(return_value=mock.Mock(alive=True))
        self.enterContext(mock.patch("iat_nova.cmd.hand_over.look", alive))
        self.alive = alive

    def program(self, name, does):
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{does}\n")
        path.chmod(0o755)

    def unit(self):
        return self.run_it("hand-over", "--if-restarting", "iat-nova-agent.service")

    def test_a_restart(self):
        """systemd is asked to restore the host before the agent is asked to leave it."""
        self.assertEqual(0, self.unit()[0])
        self.assertTrue(self.files.asked)
        asked = (self.folder / "asked").read_text()
        named = f"--state-dir {self.settings().state_dir} --config-file .*iat"
        self.assertRegex(asked, f"--on-active=62s .* restore --unless-taken {named}")

    def test_names_of_here(self):
        """The restore works in another folder, in another environment: it finds the same files."""
        (self.folder / "conf.d").mkdir()
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        self.config.write_text("[iat]\n")
        self.enterContext(mock.patch.dict(os.environ, {STATE_DIR_VARIABLE: "state"}))
        relative = os.path.relpath(self.config)
        status, _, err = self.run_it(
            "hand-over", "--config-file", relative, "--config-dir", "conf.d"
        )
        self.assertEqual((0, ""), (status, err))
        asked = (self.folder / "asked").read_text()
        names = (self.config, f"{self.folder}/conf.d/", self.config)
        self.assertTrue(asked.endswith("".join(f" --config-file {name}" for name in names) + "\n"))
        self.assertIn(f" --state-dir {self.folder}/state ", asked)

    def test_a_stop(self):
        """Nothing is asked of anybody."""
        for job in ("12 iat-nova-agent.service stop running", "12 other.service restart running"):
            self.program("systemctl", f"echo '{job}'")
            self.assertEqual(0, self.unit()[0])
            self.assertFalse(self.files.asked)
        self.assertFalse((self.folder / "asked").exists())

    def test_a_systemd_that_does_not_restore(self):
        """The agent is not asked: it restores itself."""
        self.program("systemd-run", "echo no bus >&2; exit 1")
        status, _, err = self.unit()
        self.assertEqual(
            (1, "iat-nova: systemd-run: no bus; the agent restores when it stops\n"), (status, err)
        )
        self.assertFalse(self.files.asked)

    def test_no_agent(self):
        """There is nothing to hand over."""
        self.alive.return_value.alive = False
        self.assertEqual(3, self.run_it("hand-over")[0])
        self.assertFalse(self.files.asked)

    def test_switched_off(self):
        """hand_over_s = 0."""
        with open(self.config, "a") as file:
            file.write("hand_over_s = 0\n")
        self.assertEqual(0, self.run_it("hand-over")[0])
        self.assertFalse(self.files.request.exists())
