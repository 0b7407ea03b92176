# SPDX-License-Identifier: Apache-2.0
"""The options of oslo.log in Nova's files and in ours do what they do for Nova's services."""

import io
import logging
import pathlib
import re
import sys
import tempfile
import unittest
from unittest import mock

from oslo_log import handlers, log

from iat_nova.cmd import logs
from iat_nova.conf import ConfigError
from tests.said import sentence

LOG = logging.getLogger("iat_nova.test")
LINE = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \d+ %s iat_nova\.test \[-\] %s"


class LogsTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.said = self.enterContext(mock.patch("sys.stderr", io.StringIO()))
        self.enterContext(mock.patch("sys.stdout", io.StringIO()))
        self.enterContext(mock.patch("sys.excepthook"))
        root = logging.getLogger()
        handlers, level = root.handlers[:], root.level
        levels = {name: one.level for name, one in root.manager.loggerDict.items()
                  if isinstance(one, logging.Logger)}  # fmt: skip
        root.handlers[:] = []

        def restore() -> None:
            for handler in root.handlers:
                handler.close()
            root.handlers[:] = handlers
            root.setLevel(level)
            for name, one in root.manager.loggerDict.items():
                if isinstance(one, logging.Logger):
                    one.setLevel(levels.get(name, logging.NOTSET))

        self.addCleanup(restore)

    def setup(self, text: str = "", debug: bool = False) -> None:
        """Set logging up by a file with these lines in [DEFAULT]; log a line of each level."""
        path = self.folder / "nova.conf"
        path.write_text(f"[DEFAULT]\n{text}\n")
        logs.setup([str(path)], debug, "1")
        for level in (logging.DEBUG, logging.INFO, logging.WARNING):
            LOG.log(level, "said")

    def lines(self, text: str) -> list[str]:
        """Return the levels of the lines, each of which has OpenStack's form."""
        found = [
            re.fullmatch(LINE % (r"(\w+)", r"said( setup .*:[0-9]+)?"), line)
            for line in text.splitlines()
        ]
        self.assertNotIn(None, found, text)
        return [line[1] for line in found]

    def test_nothing_set(self) -> None:
        """To standard error, where systemd keeps it; what is done, not what is seen."""
        self.setup()
        self.assertEqual(["INFO", "WARNING"], self.lines(self.said.getvalue()))
        self.assertEqual("", sys.stdout.getvalue())
        self.assertTrue(logs.on_stderr())

    def test_no_colors(self) -> None:
        """oslo.log before 6.1 colors what goes to standard error, a journal included."""

        def as_before(*arguments: object) -> None:
            set_up(*arguments)
            for handler in (root := logging.getLogger()).handlers[:]:
                colored = handlers.ColorHandler()
                colored.setFormatter(handler.formatter)
                root.removeHandler(handler)
                root.addHandler(colored)

        set_up = log.setup
        with mock.patch.object(log, "setup", as_before):
            self.setup()
        self.assertEqual(["INFO", "WARNING"], self.lines(self.said.getvalue()))

    def test_colors_of_a_file_of_its_own(self) -> None:
        """log_config_append names the handlers: these stay."""
        config = self.folder / "logging.conf"
        config.write_text(
            "[loggers]\nkeys = root\n[handlers]\nkeys = one\n[formatters]\nkeys = one\n"
            "[logger_root]\nlevel = INFO\nhandlers = one\n[formatter_one]\nformat = %(message)s\n"
            "[handler_one]\nclass = oslo_log.handlers.ColorHandler\nformatter = one\nargs = ()\n"
        )
        self.setup(f"log_config_append = {config}")
        self.assertEqual(
            [handlers.ColorHandler], [type(one) for one in logging.getLogger().handlers]
        )

    def test_texts_of_other_programs(self) -> None:
        """No library's record can look like another record, move the cursor, or fill the disk."""
        forged = "2026-11-28 00:00:00.000 1 ERROR iat_nova [-] forged\x1b[2J\u202e\x85\u2028"
        config = self.folder / "logging.conf"
        config.write_text(
            "[loggers]\nkeys = root\n[handlers]\nkeys = one\n[formatters]\nkeys = one\n"
            "[logger_root]\nlevel = INFO\nhandlers = one\n[formatter_one]\nformat = %(message)s\n"
            f"[handler_one]\nclass = FileHandler\nformatter = one\nargs = ('{self.folder}/own',)\n"
        )
        for option in ("", f"log_config_append = {config}"):
            self.setup(option)
            logging.getLogger("library").warning("%s", f"x\n{forged}")
            try:
                raise KeyError(type("Text", (str,), {"__repr__": str.__str__})(f"x\n{forged}"))
            except KeyError:
                logging.getLogger("library").exception("failed\r%s", "y" * 100_000)
        for text in (self.said.getvalue(), (self.folder / "own").read_text()):
            self.assertTrue(text.replace("\n", "").isprintable())
            self.assertLess(len(text), 40_000)
            self.assertIn("Traceback", text)
            self.assertEqual(
                [], [one for one in text.split("\n") if one.startswith("2026-11-28 00:00:00.000 1")]
            )
            self.assertIn("forged\\x1b[2J\\u202e\\x85\\u2028", text)

    def test_debug(self) -> None:
        """[DEFAULT] debug and [iat] debug are the same; libraries stay quiet."""
        for text, iat in (("debug = true", False), ("", True)):
            with self.subTest(text=text):
                self.said.truncate(self.said.seek(0))
                self.setup(text, iat)
                logging.getLogger("matplotlib.font_manager").debug("much")
                self.assertEqual(["DEBUG", "INFO", "WARNING"], self.lines(self.said.getvalue()))

    def test_a_folder(self) -> None:
        """log_dir: a file with the agent's name, nothing on standard error."""
        self.setup(f"log_dir = {self.folder}\ndebug = true")
        text = (self.folder / "iat-nova-agent.log").read_text()
        self.assertEqual(["DEBUG", "INFO", "WARNING"], self.lines(text))
        self.assertEqual("", self.said.getvalue())
        self.assertFalse(logs.on_stderr())

    def test_a_file(self) -> None:
        """log_file; with use_stderr in both places."""
        self.setup(f"log_file = {self.folder}/x.log\nuse_stderr = true")
        text = (self.folder / "x.log").read_text()
        self.assertEqual(["INFO", "WARNING"], self.lines(text))
        self.assertEqual(["INFO", "WARNING"], self.lines(self.said.getvalue()))

    def test_levels(self) -> None:
        """default_log_levels of one's own are kept, those of quiet libraries too."""
        self.setup("default_log_levels = iat_nova.test=ERROR,matplotlib=INFO")
        logging.getLogger("matplotlib").info("asked for")
        self.assertIn(" INFO matplotlib ", self.said.getvalue())
        self.assertNotIn("iat_nova.test", self.said.getvalue())

    def test_a_place_that_is_not_ours(self) -> None:
        """Nova's log folder, or a file that is not there: standard error, with the reason."""
        for option in ("log_dir = /proc/nova", "log_config_append = /nowhere/logging.conf"):
            with self.subTest(option):
                self.said.truncate(self.said.seek(0))
                self.setup(option)
                first, *rest = self.said.getvalue().splitlines()
                self.assertRegex(first, r"WARNING iat_nova \[-\] logging to standard error: .*/no")
                self.assertEqual(["INFO", "WARNING"], self.lines("\n".join(rest)))

    def test_a_journal_without_bindings(self) -> None:
        """use_journal needs python3-systemd; standard error is the service's journal anyway."""
        with mock.patch("oslo_log.handlers.journal", None):
            self.setup("use_journal = true")
        self.assertIn("logging to standard error: Systemd bindings", self.said.getvalue())
        sent = mock.Mock()
        with mock.patch("oslo_log.handlers.journal", sent):
            self.setup("use_journal = true")
        priorities = [call.kwargs["PRIORITY"] for call in sent.send.call_args_list]
        self.assertEqual([6, 4], priorities)

    def test_what_is_novas_alone(self) -> None:
        """publish_errors needs a message bus, which the agent has not."""
        self.setup("publish_errors = true")
        self.assertEqual(["INFO", "WARNING"], self.lines(self.said.getvalue()))

    def test_mistakes(self) -> None:
        """A level that does not exist is a mistake of the configuration."""
        for text in ("default_log_levels = iat_nova=LOUD", "debug = perhaps"):
            with self.subTest(text), self.assertRaises(ConfigError) as caught:
                self.setup(text)
            self.assertRegex(sentence(caught.exception), "LOUD|perhaps")
