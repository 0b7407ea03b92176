# SPDX-License-Identifier: Apache-2.0
"""Decisions as rows: each tenant has the name of its own cache domain's inventory."""

import dataclasses

from iat_nova.model import Action, DevicePort, Group, PortGroup, Step, WayMask, message
from iat_nova.report import account, port_account, turns
from iat_nova.report.subjects import find
from iat_nova.report.turns import concerns
from iat_nova.report.view import gather
from iat_nova.store.reader import HistoryReader
from tests.unit import stories
from tests.unit.report.test_moments import MomentCase


class TurnsTest(MomentCase):
    def test_two_cache_domains_of_one_inventory(self) -> None:
        """Of a host with two sockets, in either order."""
        other = dataclasses.replace(
            stories.inventory(),
            domain=dataclasses.replace(stories.DOMAIN, id=1),
            tenants=(dataclasses.replace(stories.inventory().tenants[0], name="second"),),
        )
        both = {0: stories.inventory(), 1: other}
        row = self.history.inventory(self.clock.wall_s, stories.facts(), both)
        for domain in (0, 1):
            made = stories.burst(1, self.clock.wall_s + domain, inventory_id=row)
            step = dataclasses.replace(made.decision.steps[0], subject="stack")
            decision = dataclasses.replace(made.decision, domain=domain, steps=(step,), moved=())
            self.history.record(dataclasses.replace(made, domain=domain, decision=decision))
        self.assertTrue(self.history.flush(60.0))
        with HistoryReader(self.path) as reader:
            names = [
                turn.name
                for recorded in reader.decisions(9)
                for turn in turns.of(reader, recorded)
                if turn.subject == "stack"
            ]
        self.assertEqual(["second", "vswitch"], names)

    def test_ports(self) -> None:
        """Ways of a port concern the tenants behind; without its own it has DDIO's."""
        first = stories.inventory()
        port = DevicePort("0000:5e:00.0", ("0000:5e:00.0",))
        *others, last = first.tenants
        inventory = dataclasses.replace(
            first,
            domain=dataclasses.replace(first.domain, device_ports=(port,)),
            tenants=(*others, dataclasses.replace(last, ports=(port.id,))),
        )
        row = self.history.inventory(self.clock.wall_s, stories.facts(), {0: inventory})
        plain = stories.layout(2)
        own = dataclasses.replace(plain, ports=(PortGroup((port.id,), WayMask(0x100)),))
        for number, (before, after) in enumerate(((plain, own), (own, plain)), 1):
            made = stories.burst(number, self.clock.wall_s + number, inventory_id=row)
            why = message("ports-aside", ports=(port.id,))
            step = Step(Action.TRY, "ddio", why, ports=(port.id,))
            decision = dataclasses.replace(
                made.decision, layout=after, steps=(step,), moved=(port.id,)
            )
            self.history.record(
                dataclasses.replace(made, decision=decision, layout_before=before, effective=None)
            )
        self.assertTrue(self.history.flush(60.0))
        with HistoryReader(self.path) as reader:
            subject = find(reader.latest_inventory(), last.name)
            found = [
                (turn.name, turn.ways, turn.reason)
                for recorded in reversed(reader.decisions(9))
                for turn in turns.of(reader, recorded)
                if concerns(subject, turn)
            ]
            nobody = find(reader.latest_inventory(), others[0].name)
            self.assertFalse(concerns(nobody, turns.of(reader, reader.decisions(1)[0])[-1]))
        reason = "try ddio: one way of their own for ports 0000:5e:00.0"
        self.assertEqual(
            [
                ("port 0000:5e:00.0", "1", f"from those of DDIO to 0x100: {reason}"),
                ("port 0000:5e:00.0", "1", f"from 0x100 to those of DDIO: {reason}"),
            ],
            found,
        )

    def test_a_mask_that_moves_with_others(self) -> None:
        """Its reason is the step that moved it, whoever the step names, and not what was kept."""
        ddio = message("ddio-ways", ways=4)
        kept = message("kept", move=ddio, cause=message("speeds", gain=0.2))
        promise = message("promise", promise=0.05, least=0.02)
        larger = message("tried", move=message("ddio-ways", ways=6), cause=promise)
        decisions: tuple[tuple[Step, ...], ...] = (
            (Step(Action.TRY, "ddio", message("tried", move=ddio, cause=promise)),),
            (Step(Action.KEEP, "ddio", kept), Step(Action.TRY, "ddio", larger)),
            (Step(Action.KEEP, "ddio", dataclasses.replace(kept)),),
            (Step(Action.WATCH, "layout", message("no-tenant-awake")),),
        )
        for number, steps in enumerate(decisions, 1):
            made = stories.burst(number, self.clock.wall_s + number, inventory_id=self.row)
            moved = ("ddio", stories.BE) if number != 3 else ()
            decision = dataclasses.replace(made.decision, rule=None, steps=steps, moved=moved)
            self.history.record(dataclasses.replace(made, decision=decision))
        self.assertTrue(self.history.flush(60.0))
        with HistoryReader(self.path) as reader:
            picture = reader.latest_inventory()
            assert picture is not None
            subject = find(picture, "be1")
            assert subject is not None
            told = account.give(reader, gather(reader), subject, picture)
        found = [(turn.iteration, turn.kind, turn.reason) for turn, _ in told.parts[0].turns]
        self.assertEqual(
            [(4, "move"), (3, "keep"), (2, "move"), (2, "keep"), (1, "move")],
            [one[:2] for one in found],
        )
        self.assertTrue(found[0][2].endswith(": watch: no tenant is awake"), found)
        why = "(may gain +5.0% at most, tried above +2.0%)"
        self.assertTrue(
            found[2][2].endswith(f": try ddio 2 -> 3 ways: 6 ways for DDIO {why}"), found
        )
        self.assertTrue(
            found[4][2].endswith(f": try ddio 2 -> 3 ways: 4 ways for DDIO {why}"), found
        )

    def test_ways_of_steps_without_counts(self) -> None:
        """A step that changes its subject's mask has its ways; a kept move hides no later one."""
        held, plain = message("now-held", ways=1), stories.layout(2)
        *others, _ = plain.groups
        for number, (steps, ways) in enumerate(
            (
                ((Step(Action.ADOPT, stories.BE, held),), 1),
                ((Step(Action.KEEP, stories.BE, held), Step(Action.TRY, "layout", held)), 2),
            ),
            1,
        ):
            made = stories.burst(number, self.clock.wall_s + number, inventory_id=self.row)
            group = Group((stories.BE,), WayMask.span(5, ways))
            decision = dataclasses.replace(
                made.decision, steps=steps, moved=(stories.BE,), rule=None,
                layout=dataclasses.replace(plain, groups=(*others, group)),
            )  # fmt: skip
            self.history.record(dataclasses.replace(made, decision=decision, layout_before=plain))
        self.assertTrue(self.history.flush(60.0))
        with HistoryReader(self.path) as reader:
            newest, oldest = (turns.of(reader, one) for one in reader.decisions(9))
        self.assertEqual(["phase", "adopt be1 3 -> 1"], [one.what for one in oldest])
        self.assertEqual(
            ["phase", "keep be1", "try", "move be1 3 -> 2"], [one.what for one in newest]
        )

    def test_since_when_a_port_has_its_ways(self) -> None:
        """The last decision that moved it; its decisions are listed without moves of others."""
        first = stories.inventory()
        disk, other = (DevicePort(one, (one,)) for one in ("0000:5e:00.0", "0000:5f:00.0"))
        inventory = dataclasses.replace(
            first, domain=dataclasses.replace(first.domain, device_ports=(disk, other))
        )
        row = self.history.inventory(self.clock.wall_s, stories.facts(), {0: inventory})
        ids = (disk.id, other.id)
        both = message("ports-aside", ports=ids)
        kept = message("kept", move=both, cause=message("speeds", gain=0.2))
        plain = stories.layout(2)
        own = dataclasses.replace(plain, ports=(PortGroup(ids, WayMask(0x100)),))
        for number, (step, before, moved) in enumerate(
            (
                (Step(Action.TRY, "ddio", both, ports=ids), stories.layout(3), ids),
                (Step(Action.KEEP, "ddio", kept, ports=ids), own, ()),
            ),
            1,
        ):
            made = stories.burst(number, self.clock.wall_s + number, inventory_id=row)
            decision = dataclasses.replace(made.decision, layout=own, steps=(step,), moved=moved)
            self.history.record(
                dataclasses.replace(made, decision=decision, layout_before=before, effective=None)
            )
        self.assertTrue(self.history.flush(60.0))
        with HistoryReader(self.path) as reader:
            picture = reader.latest_inventory()
            assert picture is not None
            found = port_account.find(picture, "5E:00.0")
            assert found is not None
            seen = gather(reader)
            told = port_account.give(reader, seen, found, picture.wall_s)
        assert told.since is not None
        assert told.kept is not None
        self.assertEqual((1, 2), (told.since.iteration, told.kept.iteration))
        self.assertEqual(["keep", "move", "try"], sorted(one.kind for one in told.turns))
        self.assertEqual([2, 1, 1], [one.iteration for one in told.turns])
        page = " ".join(port_account.page(told).split())
        self.assertIn("Class one of its own, with port 0000:5f:00.0", page)
        self.assertIn("decision #2: kept: one way of their own for ports 0000:5e:00.0", page)
