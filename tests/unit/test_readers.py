# SPDX-License-Identifier: Apache-2.0
"""Every file of people or other programs, broken in every way: a reason, and a remedy that works.

`CASES` has a case for each kind of `readers`.
"""

import ast
import contextlib
import io
import json
import math
import os
import pathlib
import re
import shlex
import tempfile
import unittest
import zlib
from unittest import mock

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from iat_nova import conf, policy
from iat_nova.agent import facts_file, policy_file, provider_config
from iat_nova.agent.hand_over import HandOverFiles
from iat_nova.cmd import main as program
from iat_nova.common import readers
from iat_nova.common.untrusted import LAST_S
from iat_nova.conf import LOCK
from iat_nova.experiments.scenarios.reader import load_scenario
from iat_nova.experiments.scenarios.scenario import ScenarioError
from iat_nova.experiments.scenarios.shipped import SHIPPED
from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.enforcement import snapshot_file
from iat_nova.hardware.kernel.shape import INDEX, mapping, text
from iat_nova.inventory.spool import Spool, SpoolError
from iat_nova.model import Hold, Pause
from iat_nova.policy import PolicyError
from iat_nova.policy.render import render
from iat_nova.store.heartbeat import AgentState, look, only_agent
from iat_nova.store.records import RecordError
from iat_nova.store.requests import Holds, PauseFile
from tests.said import sentence
from tests.unit.agent import test_hand_over
from tests.unit.policy.hosts import EXAMPLES, ONE, facts, guest

ROOT = pathlib.Path(__file__).parents[2]
FILES = [one for one in vars(readers).values() if isinstance(one, readers.FileKind)]
NOW_S = 1.8e9
MANY = int(os.environ.get("IAT_NOVA_EXAMPLES", "1"))
"""How many times the examples of a usual run are made, which are always the same.

`tox -e soak` makes more, other ones each time.
"""
GUEST = "6f9619ff-8b86-4011-b42d-00cf4fc964ff"
HUGE = "9" * 400
_KNOWN = (PolicyError, RecordError, SpoolError, HardwareError, ScenarioError, conf.ConfigError)


class Case:
    """One kind of file in a folder of its own."""

    kind: readers.FileKind
    valid: bytes

    def __init__(self, folder):
        self.folder = folder

    @property
    def path(self):
        return self.folder / "file"

    def wrap(self, content):
        """Return a file's content that has what is checked first, such as a checksum."""
        return content

    def look(self):
        """Read the file; raise what its callers handle, or return the reason."""
        raise NotImplementedError

    def remedy(self, reason):
        """Do what the message says; by default mend the file."""
        self.path.unlink()
        self.path.write_bytes(self.wrap(self.valid))

    def reason(self):
        try:
            return self.look()
        except (*_KNOWN, provider_config.ProviderConfigError, OSError) as error:
            return sentence(error)

    def run_it(self, command):
        """Run a command that a message names."""
        out, err = io.StringIO(), io.StringIO()
        name, *arguments = shlex.split(command)
        assert name == "iat-nova", command
        with mock.patch("sys.stdout", out), mock.patch("sys.stderr", err):
            status = program.main(["--state-dir", str(self.folder), *arguments])
        assert status == 0, (command, err.getvalue())
        assert "internal error" not in err.getvalue()


class PauseCase(Case):
    kind = readers.PAUSE
    valid = json.dumps({"since_s": 1.0, "until_s": None, "reason": "a", "by": "b"}).encode()

    @property
    def path(self):
        return self.folder / "pause.json"

    def look(self):
        pause = PauseFile(self.folder).current(NOW_S)
        return pause.reason if pause and "unreadable" in pause.reason else None

    def remedy(self, reason):
        self.run_it(re.search("`(.+?)`", reason)[1])
        assert PauseFile(self.folder).current(NOW_S) is None
        PauseFile(self.folder).write(Pause(NOW_S))


class HoldCase(Case):
    kind = readers.HOLD
    valid = json.dumps(
        {"tenant": GUEST, "name": "db", "ways": 3, "since_s": 1.0, "until_s": 2e9, "by": "b"}
    ).encode()

    @property
    def path(self):
        (self.folder / "holds").mkdir(exist_ok=True)
        return self.folder / f"holds/{GUEST}.json"

    def look(self):
        found = Holds(self.folder).current(NOW_S)
        return found[0].reason if found and not found[0].ways else None

    def remedy(self, reason):
        self.run_it(re.search("`(.+?)`", reason)[1])
        assert Holds(self.folder).current(NOW_S) == ()
        Holds(self.folder).write(Hold(GUEST, "db", 3, NOW_S))


class SnapshotCase(Case):
    kind = readers.SNAPSHOT
    valid = json.dumps(
        {"format": 2, "boot": "b", "parts": {"x": {"0": 5, "1": 7}}, "sha256": ""}
    ).encode()

    def __init__(self, folder):
        super().__init__(folder)
        boot = folder / "boot"
        boot.write_text("b\n")
        shapes = {"x": mapping(text(r"\d", "a socket"), INDEX)}
        self.file = snapshot_file.SnapshotFile(self.path, shapes, boot_id=boot, bootloader=boot)

    def wrap(self, content):
        with contextlib.suppress(ValueError, RecursionError):
            plain = json.loads(content)
            if isinstance(plain, dict) and "sha256" in plain:
                plain["sha256"] = snapshot_file._checksum(plain)
                return json.dumps(plain).encode()
        return content

    def look(self):
        self.file.read()


class HandOverCase(Case):
    """Its content is what an agent left: see `TestHandOver` for what the next one makes of it."""

    kind = readers.HAND_OVER
    valid = json.dumps({"format": 2, "boot": "b", "parts": {"left": {}}, "sha256": ""}).encode()

    def __init__(self, folder):
        super().__init__(folder)
        boot = folder / "boot"
        boot.write_text("b\n")
        self.file = HandOverFiles(self.path, folder / "request", 10, boot_id=boot)

    wrap = SnapshotCase.wrap

    def look(self):
        self.file.read()

    def remedy(self, reason):
        self.file.remove()
        assert not self.path.exists()


class RequestCase(Case):
    kind = readers.HAND_OVER_REQUEST
    valid = b"100.5\n"

    def __init__(self, folder):
        super().__init__(folder)
        self.file = HandOverFiles(folder / "left", self.path, 10, now_s=lambda: 101.0)

    def look(self):
        return self.file.unreadable or None

    def remedy(self, reason):
        self.file.ask()
        assert self.file.asked


class HeartbeatCase(Case):
    kind = readers.HEARTBEAT
    valid = json.dumps(
        {"pid": 7, "boot_id": "b", "phase": "running", "since_s": 1.0, "at_s": 2.0}
        | {"interval_s": 1.0, "text": ""}
    ).encode()

    @property
    def path(self):
        return self.folder / LOCK

    def wrap(self, content):
        return f"{zlib.crc32(content):08x} ".encode() + content

    def look(self):
        found = [look(self.path)]
        with mock.patch("iat_nova.store.heartbeat._held", return_value=True):
            found.append(look(self.path, 10.0, "b"))
        reasons = {one.text for one in found if " is unreadable: " in one.text}
        assert len(reasons) < 2, reasons
        return next(iter(reasons), None)

    def remedy(self, reason):
        with only_agent(self.path) as heartbeat:
            heartbeat.iteration(1.0, None)
            with mock.patch("iat_nova.store.heartbeat._held", return_value=True):
                assert look(self.path).state is AgentState.RUNNING


class SpoolCase(Case):
    kind = readers.SPOOL
    valid = json.dumps({"extra_specs": {"iat:priority": "PC"}}).encode()

    @property
    def path(self):
        return self.folder / f"{GUEST}.json"

    def look(self):
        Spool(self.folder).extra_specs_of(GUEST)


class PolicyCase(Case):
    kind = readers.POLICY
    valid = (EXAMPLES / "nfv.yaml").read_bytes()

    def look(self):
        source = policy_file.read(self.path)
        found = policy.parse(source, ONE, str(self.path), render)
        found.classify(facts(guest()), {})
        json.dumps(found.effective)


class FactsCase(Case):
    kind = readers.FACTS
    valid = facts_file.dump(facts(guest())).encode()

    def look(self):
        found = facts_file.load(self.path)
        with contextlib.suppress(PolicyError):  # it may need what this host lacks
            policy.default(found.host).classify(found, {})


class ConfigurationCase(Case):
    kind = readers.CONFIGURATION
    valid = b"[iat]\nmode = observe\ninterval_check = 1\nhistory_days = 3\nmetrics_port = 9\n"

    def look(self):
        conf.load([self.path])


class ProviderCase(Case):
    kind = readers.PROVIDER
    valid = provider_config.render(provider_config.Offer(6, 3, True)).encode()

    @property
    def path(self):
        return self.folder / "other.yaml"

    def look(self):
        provider_config.offered(self.path)
        ours = provider_config.render(provider_config.Offer(6, 3, True), node="another")
        provider_config.write(self.folder / "ours.yaml", ours)


class ScenarioCase(Case):
    kind = readers.SCENARIO
    valid = (SHIPPED / "be-streamer.yaml").read_bytes()

    @property
    def path(self):
        return self.folder / "s.yaml"

    def look(self):
        load_scenario(self.path)


CASES = {case.kind: case for case in Case.__subclasses__()}

EVIL = (None, True, -1, 0, 2**63, 2**70, 10**25, -1e308, 1e308, LAST_S + 1, "", "x" * 5000, [], {})
VALUES = st.sampled_from((*EVIL, "\ud800", "a\x00\x1b", [[[]]], {"a": {"b": None}}, math.inf))


@st.composite
def mutated(draw, valid, at_least=()):
    """Return a file in which a value, or a piece of the text, is another one.

    `at_least`: the keys below one of which values are changed.
    """
    try:
        plain = json.loads(valid) if valid.startswith(b"{") else yaml.safe_load(valid)
    except yaml.YAMLError:
        plain = None
    if isinstance(plain, dict) and (at_least or draw(st.booleans())):
        inside = [plain[key] for key in at_least] or [plain]
        places = [place for one in inside for place in _places(one)]
        for _ in range(draw(st.integers(1, 2))):
            parent, key = draw(st.sampled_from(places))
            with contextlib.suppress(IndexError):
                parent[key] = draw(VALUES)
        if valid.startswith(b"{"):
            return json.dumps(plain).encode()
        return yaml.safe_dump(plain).encode("utf-8", "replace")
    begin = draw(st.integers(0, len(valid)))
    end = min(len(valid), begin + draw(st.integers(0, 12)))
    piece = draw(st.one_of(st.binary(max_size=12), st.sampled_from(PIECES)))
    return valid[:begin] + piece + valid[end:]


PIECES = tuple(
    piece.encode()
    for piece in (
        HUGE, "1e999", "-1", "253402300800", "[" * 3000, "{" * 3000, '{"a":' * 3000, "*a", "&a ",
        "<<: ", "!!python/x ", "!!int x", "2001-99-99", "1:2:3", "0x_", "NaN", "Infinity",
        '"\\UFFFFFFFF"', '"\\ud800"', "%YAML " + HUGE, "\ufeff",
        "? ", "- " * 300, "{% if", "{{ x }}",
        "${x}", "%(x)s", "[iat]\n", "\x00",
    )
)  # fmt: skip


def _places(value):
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in list(items):
        yield value, key
        if isinstance(one, dict | list):
            yield from _places(one)


class TestEveryFile(unittest.TestCase):
    """Walks the kinds of `readers`."""

    @contextlib.contextmanager
    def case(self, kind):
        with tempfile.TemporaryDirectory(prefix="iat-readers-") as folder:
            environment = {conf.STATE_DIR_VARIABLE: folder}
            with mock.patch.dict(os.environ, environment):
                yield CASES[kind](pathlib.Path(folder))

    def check(self, case, content, *, broken=False, mend=True):
        """A file is read, or there is a reason that names it; then the remedy makes it readable."""
        case.path.write_bytes(content)
        reason = case.reason()
        if broken:
            self.assertTrue(reason, f"{case.kind.path}: {content[:80]!r}")
        if reason:
            self.assertIn(str(case.path), reason)
            self.assertLess(len(reason), 5000)
        if reason and mend:
            case.remedy(reason)
            self.assertIsNone(case.reason(), content[:80])

    def test_all_are_here(self):
        """A row without a case is a file that nobody tries."""
        self.assertEqual(FILES, list(CASES))
        for kind in FILES:
            self.assertTrue(kind.path and kind.treated_as and kind.remedy and kind.most_bytes)

    def test_valid(self):
        for kind in FILES:
            with self.subTest(kind.path), self.case(kind) as case:
                case.path.write_bytes(case.wrap(case.valid))
                self.assertIsNone(case.reason() if case.kind is not readers.HAND_OVER else None)

    def test_far_too_much(self):
        """Size, depth, digits, and what is no text."""
        contents = (
            b"x" * (16 << 20) + b"x",
            b"[" * 200_000,
            b'{"a":' * 200_000,
            f'{{"since_s": {HUGE}, "until_s": {HUGE}, "ways": {HUGE}, "a": {HUGE}}}'.encode(),
            b'{"since_s": 1e300, "until_s": 253402300800, "ways": 1}',
            b'{"since_s": NaN, "until_s": 1, "ways": 1}',
            b"\xff\xfe\x00",
            b"",
        )
        for kind in FILES:
            with self.subTest(kind.path), self.case(kind) as case:
                for content in contents:
                    broken = kind is not readers.PROVIDER or content[:1] != b"{"
                    self.check(case, content, broken=broken and bool(content))

    def test_not_a_file(self):
        """A pipe or a folder holds nobody up; a link is followed where an operator named it."""
        makers = {
            "pipe": os.mkfifo,
            "folder": lambda path: (path.mkdir(), (path / "x").touch()),
            "link": lambda path: path.symlink_to("/proc/self/mem"),
        }
        for kind in FILES:
            for name, make in makers.items():
                with self.subTest(kind.path, what=name), self.case(kind) as case:
                    make(case.path)
                    reason = case.reason()
                    self.assertIn(str(case.path), reason or "")
                    if kind in (readers.PAUSE, readers.HOLD):
                        case.remedy(reason)
                        self.assertIsNone(case.reason())


def _fuzz(kind):
    """Return the tests of one kind: raw bytes, and mutated valid files."""

    valid = CASES[kind].valid

    @given(st.binary(max_size=200))
    @settings(max_examples=10 * MANY, derandomize=MANY == 1)
    def raw(self, content):
        with self.case(kind) as case:
            self.check(case, content)
            self.check(case, case.wrap(content))

    @given(mutated(valid))
    @settings(max_examples=20 * MANY, derandomize=MANY == 1)
    def changed(self, content):
        with self.case(kind) as case:
            self.check(case, case.wrap(content))

    return raw, changed


for _kind in FILES:
    _name = re.sub(r"\W", "_", _kind.path)
    for _test, _what in zip(_fuzz(_kind), ("raw_bytes", "mutated"), strict=True):
        _test.__doc__ = f"Of {_kind.path}: never an exception, always a reason."
        setattr(TestEveryFile, f"test_{_name}_{_what}", _test)


class TestNoOtherReader(unittest.TestCase):
    """JSON and YAML of files are parsed in one place."""

    PARSERS = ("json.load", "json.loads", "yaml.load", "yaml.safe_load", "yaml.compose")
    OTHERS = {
        "agent/facts_file.py": "a value of ours, made plain",
        "agent/hand_over.py": "a value of ours, made plain",
        "agent/policy_file.py": "what our own child writes",
        "checks/rights.py": "what our own child writes",
        "cmd/base.py": "a value of ours, made plain",
        "common/own_yaml.py": "files of the package",
        "common/untrusted.py": "the one place",
        "checks/qualify/programs.py": "what a program that we start writes into a file of ours",
        "experiments/compare/bound.py": "what the simulator has kept",
        "experiments/papers/claims.py": "a file of the package",
        "experiments/papers/definition.py": "a file of the package",
        "experiments/papers/pages.py": "what the simulator has written",
        "experiments/runs/kept_runs.py": "what the simulator has kept",
        "experiments/runs/store.py": "what the simulator has kept",
        "store/records.py": "the history, whose records have limits of their own",
    }

    def test_digits(self):
        """Only ASCII's are read: ``\\d``, isdigit and isdecimal accept those of other scripts."""
        modules = (ROOT / "iat_nova").rglob("*.py")
        for path in (one for one in modules if "experiments" not in one.parts):
            for line in path.read_text(encoding="utf-8").splitlines():
                if re.search(r"\\d|\.is(digit|decimal)", line):
                    self.assertIn("isascii", line, path)

    def test_who_parses(self):
        """A new module that parses a file by itself is found, and one that no longer does."""
        package = ROOT / "iat_nova"
        found = set()
        for path in package.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in self.PARSERS:
                    found.add(str(path.relative_to(package)))
        self.assertEqual(set(self.OTHERS), found)


class TestHandOver(test_hand_over.HandOverCase):
    """The next agent goes on, or restores the host: whatever the file says."""

    def test_mutated(self):
        """No content ends the next agent, and its end leaves the host as it was found."""
        self.hand_over()
        path = self.settings().hand_over_path
        valid = path.read_bytes()
        wrap = SnapshotCase(self.folder).wrap

        @given(mutated(valid, at_least=("parts",)))
        @settings(max_examples=6 * MANY, derandomize=MANY == 1)
        def check(content):
            if not path.exists():
                self.hand_over()
            path.write_bytes(wrap(content))
            with self.assertNoLogs("iat_nova", "CRITICAL"):
                self.life()
            self.assert_gone()

        check()
