# SPDX-License-Identifier: Apache-2.0
"""The simulate commands as a person types them."""

import builtins
import concurrent.futures
import contextlib
import csv
import dataclasses
import errno
import functools
import json
import os
import pathlib
import tempfile
from unittest import mock

from iat_nova.experiments.papers import catalogue
from iat_nova.experiments.papers.api import ClaimFinding
from iat_nova.experiments.runs import parallel
from tests.unit.cmd.test_cli import CliCase
from tests.unit.experiments.sim import in_process
from tests.unit.experiments.sim.test_figures import FIGURE

# One guest, whose packets leave within the step in which they came.
TEXT = """\
length: 3s
compression: 1%
nics:
  nic0: {address: "0000:3b:00.0", speed: 40Gb/s}
guests:
  - name: instance-00000001
    uuid: 00000001-5117-4000-8000-000000000001
    cpus: [0, 1]
    attachments: [{kind: vf, device: "0000:3b:02.0", nic: nic0}]
workloads:
  fwd: {profile: testpmd, cpus: [0, 1], nic: nic0}
traffic:
  fwd: {to: fwd, rate: 1Gb/s, packet: 512B}
"""

WIDE = ("--max-width", "250")  # no cell of a table is folded

# A PC guest to which nobody sends beside one that works, and a BE guest.
COMPARED = """\
length: 2s
compression: 1%
nics:
  nic0: {address: "0000:3b:00.0", speed: 40Gb/s}
guests:
  - name: instance-00000001
    uuid: 00000001-5117-4000-8000-000000000002
    extra_specs: {"iat:priority": PC}
    cpus: [0]
  - name: instance-00000002
    uuid: 00000002-5117-4000-8000-000000000002
    extra_specs: {"iat:priority": PC}
    cpus: [1]
    attachments: [{kind: vf, device: "0000:3b:02.0", nic: nic0}]
  - name: instance-00000003
    uuid: 00000003-5117-4000-8000-000000000002
    extra_specs: {"iat:priority": BE}
    cpus: [2]
workloads:
  database: {profile: xmem, cpus: [0], working_set: 4MiB}
  unasked: {profile: testpmd, cpus: [1], nic: nic0}
  batch: {profile: xmem, cpus: [2], working_set: 4MiB}
"""


class TestSimulateRun(CliCase):
    def simulate(self, *arguments, text=TEXT):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "short.yaml"
            path.write_text(text)
            status, out, self.err = self.run_it("simulate", "run", str(path), *arguments)
        self.assertEqual(0, status, self.err)
        return out

    def test_restarts_are_shown(self):
        """When the agent was restarted, which counts as no transition."""
        self.assertNotIn("restarted", self.simulate())
        self.assertIn("agent restarted at 1.5 s", self.simulate(text=f"{TEXT}restarts: [1500ms]\n"))

    def test_latency(self):
        """A person reads a latency far below the step of time, too, not that it is 0."""
        row = next(line for line in self.simulate().splitlines() if "fwd" in line)
        latency_us = float(row.split(" us")[0].split()[-1])
        self.assertGreater(latency_us, 0.05)
        self.assertLess(latency_us, 5.0)

    def test_data_tell_the_resolution(self):
        """A program finds the step beside the latency."""
        record = json.loads(self.simulate("-f", "json"))
        self.assertEqual(5.0, record["step_us"])
        self.assertLess(record["workloads"][0]["latency_us"], record["step_us"])


class TestSimulateList(CliCase):
    def test_what_ships(self):
        """Each scenario has a row with its title and its file, to be copied."""
        status, out, err = self.run_it("simulate", "list", "-f", "json")
        self.assertEqual(0, status, err)
        rows = {row["scenario"]: row for row in json.loads(out)}
        self.assertGreaterEqual(len(rows), 11)
        self.assertTrue(pathlib.Path(rows["leaky-dma"]["file"]).exists())
        self.assertIn("Leaky DMA", rows["leaky-dma"]["title"])
        _, out, _ = self.run_it("simulate", "list", "-f", "value", "-c", "scenario", "-c", "file")
        self.assertEqual(
            {name: row["file"] for name, row in rows.items()},
            dict(map(str.split, out.splitlines())),
        )
        _, out, _ = self.run_it("simulate", "list")
        self.assertLess(max(map(len, out.splitlines())), 110)


@mock.patch.object(parallel, "executor", in_process.executor)
class TestFigures(CliCase):
    def test_verdicts(self):
        """A program gets a row a claim; a person how many are met, and that time is compressed."""
        made_up = dataclasses.replace(FIGURE, compression=0.05)
        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch.object(catalogue, "figures", return_value={"iat-3a": made_up}),
        ):
            asked = (
                "simulate",
                "figures",
                "iat-3a",
                "--seeds",
                "1",
                "--jobs",
                "1",
                "--out",
                folder,
            )
            status, out, err = self.run_it(*asked, "-f", "json")
        self.assertEqual(0, status, err)
        rows = {row["claim"]: row for row in json.loads(out)}
        self.assertEqual({"iat-3a-64", "iat-3a-mono", "iat-3a-512"}, rows.keys())
        keys = ["figure", "claim", "set", "published", "measured", "met", "strict", "reason"]
        self.assertEqual(keys, list(rows["iat-3a-mono"]))
        self.assertEqual(
            {"figure": "iat-3a", "met": True, "reason": "made up"},
            {key: rows["iat-3a-mono"][key] for key in ("figure", "met", "reason")},
        )
        self.assertIn("simulated share of each second: iat-3a: 5%", err)
        self.assertIn(
            "1 of 2 judged claims met within 25 %, 1 strictly; "
            "0 of 1 calibration claims met within 25 %, 0 strictly; see",
            err,
        )

    def test_judged_again(self):
        """What a folder holds is judged again, and nothing is measured."""

        def judge(rows):
            yield ClaimFinding("iat-13-base", (14.1, 18.0), "made up")
            yield ClaimFinding("iat-13-iat", 5.0, "made up")
            yield ClaimFinding("iat-13-iat-redis", 7.0, "made up")

        spread = dataclasses.replace(FIGURE, name="iat-13", judge=judge)
        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch.object(catalogue, "figures", return_value={"iat-13": spread}),
        ):
            asked = ("simulate", "figures", "iat-13", "--out", folder)
            status, _, err = self.run_it(*asked, "--judge")
            self.assertNotEqual(0, status)
            self.assertIn("holds none of these figures: measure them without --judge", err)
            status, _, err = self.run_it(*asked, "--seeds", "1")
            self.assertEqual(0, status, err)
            self.assertNotIn("simulated share", err)
            unmeasured = dataclasses.replace(spread, measure=None)
            with mock.patch.object(catalogue, "figures", return_value={"iat-13": unmeasured}):
                status, _, err = self.run_it(*asked, "--judge")
                _, table, _ = self.run_it(*asked, "--judge", "-f", "csv")
        self.assertEqual(0, status, err)
        second = list(csv.DictReader(table.splitlines()))[1]
        self.assertEqual("5.0", second["measured"])
        self.assertIn("2 of 3 judged claims met within 25 %, 2 strictly; see", err)


@contextlib.contextmanager
def refusing(module, error):
    """Let the import of a module fail with this error."""
    before = builtins.__import__

    def load(name, *arguments, **named):
        package, _, last = module.rpartition(".")
        wanted = arguments[2] if len(arguments) > 2 else named.get("fromlist")
        if name == module or (name == package and last in (wanted or ())):
            raise error
        return before(name, *arguments, **named)

    with mock.patch.object(builtins, "__import__", load):
        yield


@mock.patch.object(parallel, "executor", in_process.executor)
class TestSimulateCompare(CliCase):
    def test_rows_for_programs(self):
        """A row a strategy and seed; a guest that is never asked is named, and counts nowhere."""
        path = self.folder / "compared.yaml"
        path.write_text(COMPARED)
        out_folder = self.folder / "out"
        status, out, err = self.run_it(
            *("simulate", "compare", str(path), "--strategy", "baseline", "--seeds", "1"),
            *("--jobs", "1", "--out", str(out_folder), "-f", "json", "--against", "baseline"),
        )
        self.assertEqual(0, status, err)
        (row,) = json.loads(out)
        self.assertEqual(
            {
                "scenario",
                "strategy",
                "seed",
                "pc_performance",
                "be_throughput",
                "memory_bandwidth",
                "way_changes_per_minute",
                "settle_s",
                "pc_of_bound",
            },
            set(row),
        )
        self.assertEqual(
            ("compared", "baseline", 1), (row["scenario"], row["strategy"], row["seed"])
        )
        self.assertGreater(row["pc_performance"], 0.3)
        self.assertLessEqual(row["pc_performance"], 1.01)
        self.assertEqual(1.0, row["be_throughput"])
        self.assertEqual((0.0, 0.0), (row["way_changes_per_minute"], row["settle_s"]))
        self.assertRegex(err, r"compared: not in the means.*: unasked\n")
        written = {file.name for file in out_folder.iterdir()}
        kinds = (".svg", ".csv", "-tenants.csv", "-workloads.csv", "-workloads.json")
        self.assertEqual({*(f"compared{kind}" for kind in kinds), "runs"}, written)
        rows = json.loads((out_folder / "compared-workloads.json").read_text())
        database, unasked, batch = rows
        self.assertEqual(
            ("compared", "baseline", 1, "database", "PC", "accesses"), tuple(database.values())[:6]
        )
        self.assertGreater(batch["throughput_per_s"], 0)
        self.assertGreater(batch["cycles_per_unit"], 0)
        unknown = ("gbps", "latency_mean_us", "latency_p99_us", "loss", "cycles_per_unit")
        self.assertEqual([None] * 5, [unasked[key] for key in unknown])
        with (out_folder / "compared-workloads.csv").open() as file:
            told = list(csv.DictReader(file))
        self.assertEqual(("unasked", "BE"), (told[1]["workload"], told[2]["priority"]))
        self.assertEqual([""] * 5, [told[1][key] for key in unknown])

    def test_a_table_for_people(self):
        """The worst tenant is named, with several scenarios the means are there; or each tenant."""
        path, other = self.folder / "compared.yaml", self.folder / "other.yaml"
        for each in (path, other):
            each.write_text(COMPARED.replace("length: 2s", "length: 1s"))
        asked = ("--strategy", "baseline", "--seeds", "1", "--jobs", "1", "--out", str(self.folder))
        status, out, err = self.run_it("simulate", "compare", str(path), str(other), *asked, *WIDE)
        self.assertEqual(0, status, err)
        self.assertRegex(out, r"compared +\| baseline .*\| (database|batch) \d\.\d{3}")
        self.assertRegex(out, r"all scenarios +\| baseline ")
        names = ("overview.svg", "overview.csv", "overview-standings.csv", "overview-tenants.csv")
        self.assertEqual([], [n for n in names if not (self.folder / n).exists()])
        status, out, err = self.run_it(
            "simulate", "compare", str(path), *asked, *WIDE, "--tenants", "--compression", "1%"
        )
        self.assertEqual(0, status, err)
        self.assertRegex(out, r"compared +\| baseline +\| +1 \| batch +\| BE +\| - ")

    def test_drawn_hosts_go_on_where_they_were(self):
        """Each random host is a file that runs alone; what is finished is not run again."""
        asked = ("--strategy", "pollute-buffer", "--seeds", "1", "--seconds", "1")
        asked += ("--out", str(self.folder), "-f", "json", "--without", "ddio-ways")
        drawn = ("simulate", "compare", "--random", "1", "--seed", "3")
        status, first, err = self.run_it(*drawn, *asked)
        self.assertEqual(0, status, err)
        names = ["pollute-buffer", "pollute-buffer without ddio-ways"]
        self.assertEqual(names, [row["strategy"] for row in json.loads(first)])
        self.assertIn("random-3-001 (1 of 1): ", err)
        with mock.patch("iat_nova.experiments.compare.compare._run", side_effect=AssertionError):
            self.assertEqual((0, first), self.run_it(*drawn, *asked)[:2])
            path = self.folder / "hosts" / "random-3-001.yaml"
            self.assertEqual((0, first), self.run_it(*drawn[:2], str(path), *asked)[:2])

    def test_a_family_that_is_none(self):
        """The families that there are are named."""
        status, _, err = self.run_it("simulate", "compare", "leaky-dma", "--without", "magic")
        self.assertEqual((2, True), (status, "ddio-ways, port-dca" in err), err)

    def test_two_scenarios_of_one_name(self):
        """Their results would be in the same files, as those of all would be in the overview."""
        paths = [self.folder / name / "x.yaml" for name in ("a", "b")]
        for path in paths:
            path.parent.mkdir()
            path.write_text(COMPARED)
        overview = self.folder / "overview.yaml"
        overview.write_text(COMPARED)
        for name in ("compare", "bound"):
            status, _, err = self.run_it("simulate", name, *map(str, paths))
            expected = f"{paths[1]}: the results would overwrite those of {paths[0]}"
            self.assertEqual((2, True), (status, expected in err), err)
            status, _, err = self.run_it("simulate", name, str(overview))
            self.assertEqual((2, True), (status, "those of all scenarios" in err), err)

    def test_a_scenario_with_the_name_of_a_drawn_host(self):
        """It is refused too, before the random host's file is written."""
        path = self.folder / "random-1-001.yaml"
        path.write_text(COMPARED)
        asked = (str(path), "--random", "1", "--out", str(self.folder / "out"))
        expected = f"{path}: the results would overwrite those of random host random-1-001"
        for name in ("compare", "bound"):
            status, _, err = self.run_it("simulate", name, *asked)
            self.assertEqual((2, True), (status, expected in err), err)
            self.assertFalse((self.folder / "out").exists())

    def test_the_emulated_server_is_not_installed(self):
        """Each command says once what is missing, and what installs it."""
        said = "the emulated server cannot be compiled: why"
        commands = {
            "run": "runs.run", "compare": "runs.parallel", "bound": "compare.bound",
            "figures": "papers.catalogue",
        }  # fmt: skip
        for name, module in commands.items():
            path = f"iat_nova.experiments.{module}"
            with self.subTest(name), refusing(path, ImportError(said)):
                status, _, err = self.run_it("simulate", name, "iat-4")
                self.assertEqual((1, f"iat-nova: {said}\n"), (status, err))

    def test_a_module_that_does_not_load(self):
        """An installed package is not called missing: the error's own text is shown."""
        said = "libffi.so.8: cannot open shared object file"
        path = "iat_nova.experiments.runs.run"
        with refusing(path, ImportError(said, name="_ctypes")):
            status, _, err = self.run_it("simulate", "run", "iat-4")
        self.assertEqual((1, f"iat-nova: {said}\n"), (status, err))
        with refusing(path, ModuleNotFoundError("none", name="numpy")):
            status, _, err = self.run_it("simulate", "run", "iat-4")
        self.assertEqual((1, True), (status, "the emulated server needs numpy: " in err), err)

    def test_options_without_effect(self):
        """What would be ignored is refused: options of random hosts, and those beside --worth."""
        wrong = {
            ("compare", "leaky-dma", "--seed", "3"): "give --random N",
            ("compare", "leaky-dma", "--hosts", "storage"): "give --random N",
            ("bound", "leaky-dma", "--seed", "3"): "give --random N",
            ("compare", "leaky-dma", "--bound", "nowhere"): "there is no folder nowhere",
            (
                "compare",
                "leaky-dma",
                "--worth",
                "--tenants",
                "--against",
                "iat",
            ): "--against, --tenants",
            ("compare", "x", "--worth", "--strategy", "a4", "--strategy", "iat"): "one --strategy",
        }
        for asked, text in wrong.items():
            with self.subTest(asked), contextlib.chdir(self.folder):
                status, _, err = self.run_it("simulate", *asked, "--seconds", "1")
                self.assertEqual((2, True), (status, text in err), err)
                self.assertEqual([], [one.name for one in self.folder.glob("iat-nova-*")])

    def test_a_folder_that_cannot_be_used(self):
        """Every command of the emulated server says which, why and what to do."""
        path = self.folder / "file"
        path.write_text("")
        read_only = os.statvfs("/sys").f_flag & os.ST_RDONLY  # in a container
        for name, *asked in (
            ("run", "leaky-dma", "--keep"), ("compare", "leaky-dma", "--out"),
            ("bound", "leaky-dma", "--out"), ("figures", "iat-4", "--out"),
            ("compare", "--random", "1", "--out"),
        ):  # fmt: skip
            for place, why in (
                (path, "a file is there"),
                (path / "below", "Not a directory"),
                (self.folder / ("x" * 300), "File name too long"),
                (pathlib.Path("/sys"), os.strerror(errno.EROFS if read_only else errno.EACCES)),
            ):
                with self.subTest(name=name, place=place):
                    status, _, err = self.run_it("simulate", name, *asked, str(place))
                    expected = f"iat-nova: folder {place} cannot be used: {why}; name another one\n"
                    self.assertEqual((1, expected), (status, err))

    def test_stopped(self):
        """Ctrl-C: it is said where finished runs are kept, and that the command continues."""
        out = self.folder / "out"
        for kept, *asked in (
            (out / "runs", "compare", "leaky-dma"),
            (out, "bound", "leaky-dma"),
            (out / "points", "figures", "iat-4"),
        ):
            stopped = mock.patch.object(
                concurrent.futures.ThreadPoolExecutor, "submit", side_effect=KeyboardInterrupt
            )
            with self.subTest(asked), stopped:
                status, _, err = self.run_it("simulate", *asked, "--out", str(out))
                self.assertEqual(130, status)
                self.assertIn(f"finished runs are kept in {kept}, and the same command", err)

    def test_stopped_while_the_next_scenario_runs(self):
        """Its finished runs are kept, too."""
        paths = [self.folder / f"{name}.yaml" for name in "ab"]
        for path in paths:
            path.write_text(TEXT)
        asked, submitted = [], parallel.submitted

        def noted(*given):
            asked.append(submitted(*given))
            return asked[-1]

        def stop(*_):
            for futures in asked:
                concurrent.futures.wait(futures)
            raise KeyboardInterrupt

        out = self.folder / "out"
        given = [*map(str, paths), "--strategy", "baseline", "--seeds", "1", "--out", str(out)]
        with (
            mock.patch.object(parallel, "submitted", noted),
            mock.patch.object(parallel, "in_order", stop),
        ):
            status, _, _ = self.run_it("simulate", "compare", *given, "--seconds", "1")
        self.assertEqual((130, 2), (status, len(asked)))
        kept = sorted(str(one.relative_to(out / "runs")) for one in out.glob("runs/*/*.json"))
        self.assertEqual([f"{name}/{one}-1.json" for name in "ab"
                          for one in ("baseline", "unmanaged")], kept)  # fmt: skip

    def test_a_compression_that_is_none(self):
        """Nothing simulated, more than all of a second, and a number without a sign are refused."""
        for text in ("0", "101%", "3", "a lot"):
            with self.subTest(text):
                status, _, err = self.run_it("simulate", "compare", "x", "--compression", text)
                self.assertEqual(2, status)
                self.assertIn("expected a share from 0.1% to 100%, such as 5% or 0.05", err)

    def test_nothing_to_compare(self):
        """Without a scenario it is said how to name one."""
        status, _, err = self.run_it("simulate", "compare")
        self.assertEqual(2, status)
        self.assertIn("--all", err)


@mock.patch.object(parallel, "executor", in_process.executor)
class TestSimulateBound(CliCase):
    def test_found_and_shown_by_compare(self):
        """Three rows for people and programs; compare has the share of it, for this scenario."""
        path, kept, out_folder = (self.folder / name for name in ("two.yaml", "kept", "out"))
        path.write_text(COMPARED.replace("length: 2s", "length: 500ms"))
        asked = ("simulate", "bound", str(path), "--runs", "4", "--seeds", "1", "--out", str(kept))
        status, out, err = self.run_it(*asked, *WIDE)
        self.assertEqual(0, status, err)
        self.assertRegex(out, r"two +\| unmanaged +\| .*0x7ff database, unasked, batch; DDIO 0x600")
        self.assertIn("a lower bound, as a longer search may find better layouts", err)
        status, out, err = self.run_it(*asked, "-f", "json")
        self.assertEqual(0, status, err)
        rows = {row["layout"]: row for row in json.loads(out)}
        _, table, _ = self.run_it(*asked, "-f", "csv")
        for row in csv.DictReader(table.splitlines()):
            exact = rows[row["layout"]]["of_bound"]
            self.assertEqual(exact, float(row["of_bound"]) if row["of_bound"] else None)
        self.assertEqual(["unmanaged", "best fixed", "best a phase"], list(rows))
        self.assertEqual(1.0, rows["best a phase"]["of_bound"])
        self.assertNotIn('"lack": -', out)
        (layout,) = rows["unmanaged"]["layouts"]
        self.assertEqual(
            (0.0, 0.5, ["0x600"]), tuple(layout[k] for k in ("from_s", "to_s", "ddio"))
        )
        self.assertEqual({"database", "unasked", "batch"}, set(layout["masks"]))
        compare = ("simulate", "compare", str(path), "--strategy", "unmanaged", "--seeds", "1")
        compare += ("--bound", str(kept), "--out", str(out_folder), *WIDE)
        status, out, err = self.run_it(*compare)
        self.assertEqual(0, status, err)
        self.assertIn("PC of bound", out)
        status, out, err = self.run_it(*compare, "-f", "json")
        (row,) = json.loads(out)
        self.assertAlmostEqual(rows["unmanaged"]["of_bound"], row["pc_of_bound"])
        self.run_it(*asked, "--compression", "0.5%")
        status, out, err = self.run_it(*compare)
        self.assertIn("search again", err)
        status, out, err = self.run_it(*compare, "--compression", "0.5%")
        self.assertIn("PC of bound", out)
        path.write_text(COMPARED.replace("length: 2s", "length: 400ms"))
        status, out, err = self.run_it(*compare)
        self.assertNotIn("PC of bound", out)
        self.assertIn("search again", err)

    def test_a_share_that_is_none(self):
        """It is said what to give."""
        path = self.folder / "two.yaml"
        path.write_text(COMPARED)
        status, _, err = self.run_it("simulate", "bound", str(path), "--be-loss", "five")
        self.assertEqual(
            (2, True), (status, "expected a share from 0.0% to 100%, such as 5% or 0.05" in err)
        )

    def test_nobody_to_serve(self):
        """A scenario without a performance-critical guest is refused in one line."""
        path = self.folder / "two.yaml"
        path.write_text(COMPARED.replace("PC", "BE"))
        status, _, err = self.run_it("simulate", "bound", str(path), "--out", str(self.folder))
        self.assertEqual((2, 1), (status, len(err.splitlines())))


class TestMistakes(CliCase):
    """What is said of a scenario file that cannot be used."""

    def test_each_has_a_line_of_its_own(self):
        """Three mistakes give three lines with file, line and path, however they are run."""
        path = self.folder / "wrong.yaml"
        wrong = (("length: 3s", "length: 3 parsecs"), ("testpmd", "tespmd"), ("1Gb/s", "1"))
        path.write_text(functools.reduce(lambda text, pair: text.replace(*pair), wrong, TEXT))
        for command in ("run", "compare"):
            with self.subTest(command):
                status, _, err = self.run_it("simulate", command, str(path))
                self.assertEqual(2, status)
                first, second, third = err.splitlines()
                self.assertTrue(first.startswith(f"iat-nova: {path}: line 1: length: "), first)
                self.assertTrue(second.startswith(f"{path}: line 11: workloads.fwd.profile: "))
                self.assertIn("did you mean testpmd?", second)
                self.assertTrue(third.startswith(f"{path}: line 13: traffic.fwd.rate: "), third)

    def test_a_scheduler_without_the_extra(self):
        """It is said what to install; processes and a scheduler at once are refused."""
        path = self.folder / "two.yaml"
        path.write_text(COMPARED)
        there = ("--scheduler", "tcp://127.0.0.1:1")
        for command in ("compare", "bound"):
            with self.subTest(command), in_process.without("distributed"):
                status, _, err = self.run_it("simulate", command, str(path), *there)
                self.assertEqual(1, status)
                self.assertIn("pip install 'iat-nova[dask]'", err)
        status, _, err = self.run_it("simulate", "figures", *there, "--jobs", "2")
        self.assertEqual((2, True), (status, "not allowed with argument --scheduler" in err))

    def test_what_a_terminal_would_act_upon_is_escaped(self):
        """Control characters of a file are shown as such."""
        path = self.folder / "wrong.yaml"
        path.write_text(TEXT + '"\\e[31m": red\n')
        _, _, err = self.run_it("simulate", "run", str(path))
        self.assertIn("\\x1b[31m", err)


class TestAdvise(CliCase):
    def test_what_the_agent_found(self):
        """The page names the device, what it needs and what would fit; JSON has the numbers."""
        with tempfile.TemporaryDirectory() as folder:
            kept = pathlib.Path(folder) / "state"
            path = pathlib.Path(folder) / "short.yaml"
            path.write_text(TEXT + "strategy: iat\npolicy: {ddio_ways_max: 5}\n")
            self.run_it("simulate", "run", str(path), "--keep", str(kept), "--seconds", "1")
            asked = ("--state-dir", str(kept), "advise", "--guest-ring", "4096")
            status, page, err = self.run_it(*asked)
            self.assertEqual(0, status, err)
            record = json.loads(self.run_it(*asked, "-f", "json")[1])
            crowded = self.run_it(*asked, "--guest-queues", "64")[1]
            uneven = self.run_it(*asked[:-1], "1024")[1]
        self.assertIn("0000:3b:02.0", page)
        self.assertIn("It does not fit: 12.2 MiB", page)
        self.assertIn("It does not fit: 3.1 MiB", uneven)
        self.assertIn("spread unevenly over the cache's sets", uneven)
        self.assertIn("rings of 512", page)
        (domain,) = record["domains"]
        self.assertEqual(2 * 4096 * (24 * 64 + 32), domain["footprint_bytes"])
        self.assertEqual(
            [("5 DDIO ways", True), ("rings of 512", False)],
            [(choice["what"], choice["partial"]) for choice in domain["choices"]],
        )
        self.assertIn("5 DDIO ways, a partial gain (it still does not fit)\n", page)
        self.assertIn("the policy's ddio_ways_max allows no more", page)
        self.assertNotIn("rings of 512, a partial", page)
        self.assertIn("rings of 64, a partial gain (it still does not fit)\n", crowded)
        self.assertEqual("leak", domain["verdict"])  # the ring's first turn
        self.assertIn("of the lines that devices wrote in the last", " ".join(page.split()))

    def test_bursts_need_their_rings(self):
        """Packets leak, and come in bursts: the advice has no smaller rings; status has a line."""
        with tempfile.TemporaryDirectory() as folder:
            kept = ("--state-dir", str(pathlib.Path(folder) / "state"))
            unmanaged = ("--strategy", "unmanaged", "--seconds", "14")
            self.run_it("simulate", "run", "short-bursts", "--keep", kept[1], *unmanaged)
            page = " ".join(self.run_it(*kept, "advise")[1].split())
            status = self.run_it(*kept, "status")[1]
        self.assertIn("0000:3b:02.0 inspector", page)
        self.assertIn("Do not shrink the rings", page)
        self.assertNotIn("rings of", page.partition("what would help")[2])
        self.assertRegex(
            status,
            r"\d+% of the lines that devices wrote in the last .* missed: see iat-nova advise",
        )
