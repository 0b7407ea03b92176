# SPDX-License-Identifier: Apache-2.0
"""Packages, commands, options and files that pages, playbooks and plug-ins name exist."""

import argparse
import pathlib
import re
import shlex
import tomllib
import unittest

import yaml

from iat_nova import conf
from iat_nova.cmd import main
from iat_nova.cmd.agent import _parser as agent_parser
from iat_nova.model.reasons import Code
from tools import command_reference

ROOT = pathlib.Path(__file__).parents[2]
PACKAGING = ROOT / "tools/packaging"
ROLE = ROOT / "tools/ansible/roles/iat_nova"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# The files that people follow, and what they run by hand. Release notes speak of their own time.
NAMING = tuple(
    path
    for pattern in (
        "*.rst", "doc/source/**/*.rst", "devstack/*", "rally-jobs/**/*", "tools/ansible/**/*",
        "tools/packaging/**/*", "etc/iat-nova/*", "quickstart", "tox.ini",
    )
    for path in sorted(ROOT.glob(pattern))
    if path.is_file() and path.suffix in ("", ".rst", ".yaml", ".sh", ".j2", ".spec", ".ini")
)  # fmt: skip
REPOSITORY = "doc|devstack|etc/iat-nova|iat_nova|quickstart-run|rally-jobs|releasenotes|tests|tools"
MADE = re.compile(
    r"(doc|releasenotes)/build|quickstart-run|.*\bNAME\b|etc/iat-nova/iat-nova\.conf$"
)
"""What a command makes, what the reader names, and /etc in a root that is built."""


def debian():
    """Return the packages of Debian that the project builds."""
    control = (PACKAGING / "debian/control").read_text()
    return set(re.findall(r"^Package: (.*)$", control, re.MULTILINE))


def rpm():
    """Return the packages of the spec file."""
    spec = (PACKAGING / "rpm/iat-nova.spec").read_text()
    found = re.findall(r"^%package (-n )?(.*)$", spec, re.MULTILINE)
    return {name if own else f"iat-nova-{name}" for own, name in found}


def defaults():
    """Return the role's variables."""
    return yaml.safe_load((ROLE / "defaults/main.yaml").read_text())


def texts():
    """Yield each file with its text."""
    for path in NAMING:
        yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def options_of(parser):
    """Return the long options of a parser."""
    return {
        option
        for action in parser._actions
        if not isinstance(action, argparse._SubParsersAction)
        for option in action.option_strings
        if option.startswith("--")
    }


class PackagesTest(unittest.TestCase):
    def test_both_kinds_of_packages_have_the_same_names(self):
        """The role installs them by one name."""
        self.assertEqual(debian(), rpm())

    def test_the_role_installs_what_is_built(self):
        """Nothing is installed, and nothing removed, by a name that no package has."""
        self.assertLessEqual(set(defaults()["iat_nova_packages"]), debian())

    def test_packages_that_are_named(self):
        """An installation command, an image or a page names a package that is built."""
        ours = re.compile(r"(?<![\w/.-])python3-iat-nova(?:-[a-z]+)*|iat-nova(?:-[a-z]+)*(?=_\*)")
        for name, text in texts():
            for command in re.findall(
                r"(?:apt-get|apt|dnf|yum|dpkg) (?:install|-i) ([^\n&|]*)", text
            ):
                found = re.findall(r"(?<![\w/.-])(?:python3-)?iat-nova[a-z-]*", command)
                with self.subTest(name, command=command):
                    self.assertLessEqual(set(found), debian())
            with self.subTest(name):
                self.assertLessEqual(set(ours.findall(text)), debian())

    def test_extras_that_are_named(self):
        """pip only warns of an extra that does not exist."""
        known = set(PROJECT["optional-dependencies"])
        self.assertLessEqual(set(defaults()["iat_nova_extras"]), known)
        for name, text in texts():
            for extras in re.findall(r"iat[-_]nova\[([\w,]+)\]|extras=([\w,]+)", text):
                with self.subTest(name, extras=extras):
                    self.assertLessEqual(set("".join(extras).split(",")), known)


class CommandsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        application = main.Application()
        found = command_reference.parsers(application)
        cls.parsers = {name: parser for name, (parser, _) in found.items()}
        cls.groups = {name.split()[0] for name in cls.parsers if " " in name}
        cls.common = options_of(application.parser)

    def check(self, where, words):
        """Fail where the words after `iat-nova` are no command, or have an option it lacks."""
        words = [word for word in words if word]
        while words and words[0].startswith("-"):
            words = (
                words[1:] if "=" in words[0] or words[0] in ("--help", "--version") else words[2:]
            )
        words = words[1:] if words[:1] == ["help"] else words
        if not words or (len(words) == 1 and words[0] in self.groups):
            return
        named = next(
            (
                " ".join(words[:count])
                for count in (2, 1)
                if " ".join(words[:count]) in self.parsers
            ),
            None,
        )
        with self.subTest(where, words=words):
            self.assertIsNotNone(named, "no such command")
            known = options_of(self.parsers[named]) | self.common
            given = {word.partition("=")[0] for word in words if re.match(r"--[a-z]", word)}
            self.assertLessEqual(given, known)

    def test_commands_of_pages(self):
        """Whoever copies a line of a console runs a command that exists, with its options."""
        line = re.compile(
            r"^ +[$#] (?:sudo )?(?:\S*/)?iat-nova ((?:[^\\\n]|\\\n|\\.)*)$", re.MULTILINE
        )
        count = 0
        for name, text in texts():
            for command in line.findall(text):
                words = re.split(r"[|>;&]", command.replace("\\\n", " "))[0]
                self.check(name, shlex.split(words, comments=True))
                count += 1
        self.assertGreater(count, 50)

    def test_commands_in_sentences(self):
        """``iat-nova COMMAND`` in a sentence is a command."""
        for name, text in texts():
            for words in re.findall(r"``iat-nova ([a-z][a-z -]*)[^`]*``", text):
                self.check(name, words.split())

    def test_commands_of_playbooks_and_plug_ins(self):
        """The role's argv, DevStack's and Rally's words."""
        argv = re.compile(r"'/iat-nova', ([^\]]*)\]|ask: \[([^\]]*)\]|\"iat-nova ([^\"{]*)\"")
        count = 0
        for name, text in texts():
            for found in argv.findall(text):
                words = re.findall(r"[\w=-]+", "".join(found))
                self.check(name, [word for word in words if word != "iat_nova_provider_file"])
                count += 1
        self.assertGreater(count, 10)
        plugin = (ROOT / "devstack/plugin.sh").read_text()
        for line in re.findall(r"\$\(_iat_nova_command\) ((?:[^\\\n]|\\\n)*)", plugin):
            words = line.replace("\\\n", " ").replace('"', " ")
            self.check("devstack/plugin.sh", words.split())
        given = re.findall(r"/iat-nova-agent.*? (--[a-z-]+)", plugin)
        self.assertLessEqual(set(given), options_of(agent_parser()))


class OptionsTest(unittest.TestCase):
    def test_options_that_are_named(self):
        """Playbooks, DevStack and pages set options that the agent has."""
        (groups,) = [
            {str(group): {option.dest for option in options} for group, options in conf.list_opts()}
        ]
        example = yaml.safe_load((ROOT / "tools/ansible/hosts.example.yaml").read_text())
        config = example["iat_nova"]["vars"]["iat_nova_config"]
        named = [("hosts.example.yaml", name) for name in config["iat"]]
        plugin = (ROOT / "devstack/plugin.sh").read_text()
        named += [
            ("plugin.sh", one) for one in re.findall(r'iniset "\$NOVA_CONF" iat (\w+)', plugin)
        ]
        for where, text in texts():
            for section in re.findall(r"^ *\[iat\]\n((?: *[#\w].*\n)+)", text, re.MULTILINE):
                named += [(where, one) for one in re.findall(r"^ *(\w+) =", section, re.MULTILINE)]
        self.assertGreater(len(named), 20)
        for where, option in named:
            with self.subTest(where, option=option):
                self.assertIn(option, groups["iat"])

    def test_codes_that_the_gate_ignores(self):
        """A problem's code that does not exist would never be ignored."""
        self.assertLessEqual(set(defaults()["iat_nova_gate_ignores"]), {one.value for one in Code})


class FilesTest(unittest.TestCase):
    def test_files_of_the_source(self):
        """A page sends nobody to a file that is not there."""
        path = re.compile(rf"(?<![\w/.$}}-])(?:{REPOSITORY})/[\w./-]*[\w]")
        for name, text in texts():
            for found in sorted(set(path.findall(text))):
                with self.subTest(name, path=found):
                    self.assertTrue(
                        MADE.match(found) or (ROOT / found).exists(), f"{found} does not exist"
                    )

    def test_units(self):
        """Each unit that somebody starts, stops or reads is ours by one name."""
        units = {path.stem for path in (ROOT / "etc/iat-nova").glob("*.service")}
        verbs = "start|stop|restart|reload|enable|disable|status|cat|edit"
        pattern = re.compile(
            rf"systemctl (?:{verbs})(?: --now)? (iat-nova[\w-]*)|-u (iat-nova[\w-]*)"
        )
        found = {(where, "".join(one)) for where, text in texts() for one in pattern.findall(text)}
        self.assertGreater(len(found), 5)
        for where, unit in sorted(found):
            with self.subTest(where):
                self.assertIn(unit, units)


if __name__ == "__main__":
    unittest.main()
