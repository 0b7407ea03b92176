# SPDX-License-Identifier: Apache-2.0
"""Errors of the hardware reach every reader as sentences, with their remedies."""

import io
import json
import logging
import pathlib
import string
import tempfile
import unittest
from unittest import mock

import iat_nova
from iat_nova.checks.qualify import run
from iat_nova.cmd import agent, doctor, main
from iat_nova.common import own_yaml
from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.host import probe
from iat_nova.model import Message, message
from iat_nova.model.reasons import Code, Reason
from iat_nova.report import log, sentences, status
from iat_nova.report.sentences import text
from iat_nova.store import heartbeat, records

PACKAGE = pathlib.Path(iat_nova.__file__).parent


def fields(sentence):
    """Return the values that a sentence names, with the way in which each is shown."""
    parsed = string.Formatter().parse(sentence)
    return {name: shown or "" for _, name, shown, _ in parsed if name is not None}


def example(code):
    """Return a message of a code, with values as the hardware gives them."""

    def value(shown):
        if shown == "list":
            return ("a", "b")
        if shown == "also":
            return message("asked-for")
        return "x" if shown in ("", "group") else 7

    values = {name: value(shown) for name, shown in fields(sentences.SENTENCES[code]).items()}
    return Message(code, values)


class TestReaders(unittest.TestCase):
    """Each code of the hardware's errors, on each way to a reader."""

    @classmethod
    def setUpClass(cls):
        """Make an error of each code, with the code in its cause and its remedy as well."""
        cls.errors = []
        file = PACKAGE / "report" / "sentences" / "hardware.yaml"
        for code in own_yaml.load(file.read_text(encoding="utf-8")):
            cause = HardwareError(example(code), message("run-restore"))
            state = message("undo-failed", error=cause.message, failures=(example(code),))
            error = HardwareError(state, example(code))
            cls.errors.append((error, text(error.message)))

    def test_no_code_is_shown(self):
        """Sentences all through; what to do about the cause is part of them."""
        for error, sentence in self.errors:
            self.assertNotRegex(sentence, r"[a-z]\(\w+=|\w=Message|\{")
            inner, remedy = (
                text(error.remedy),
                "; run iat-nova restore; and undoing it failed too: ",
            )
            self.assertEqual(f"{inner}{remedy}{inner}; {inner}", sentence)

    def test_log(self):
        """The journal's language, and a log outside the loop to which an error is given."""
        log.speak()
        self.addCleanup(logging.setLogRecordFactory, logging.LogRecord)
        out = io.StringIO()
        logger = logging.Logger("test")
        logger.addHandler(logging.StreamHandler(out))
        for error, sentence in self.errors:
            self.assertEqual(sentence, log.LogLanguage().sentence(error.message))
            out.truncate(out.seek(0))
            logger.warning("%s: %s", "not adopted", error)
            logger.warning("%s", error.message)
            self.assertEqual(f"not adopted: {sentence}\n{sentence}\n", out.getvalue())

    def test_history_and_status(self):
        """An event, and a reason of a status, are read back as they were."""
        for error, sentence in self.errors:
            reason = Reason(Code.REFUSED, message("write-refused-for-good", error=error.message))
            plain = json.loads(json.dumps(records.unstructure(reason)))
            read = records.structure(plain, Reason)
            self.assertEqual(reason, read)
            (shown,) = status._plain((read,))
            self.assertEqual(
                f"a write was refused (until the next start): {sentence}", shown["text"]
            )

    def test_end_of_the_agent(self):
        """The lock file, which `iat-nova status` reads, has as much of the sentence as fits."""
        with tempfile.TemporaryDirectory() as folder:
            lock = pathlib.Path(folder) / "agent.lock"
            for error, sentence in self.errors[::10]:
                with (
                    self.assertRaises(HardwareError),
                    heartbeat.only_agent(lock, words=agent._line),
                ):
                    raise error
                shown = heartbeat.look(lock).text.removesuffix("...")
                self.assertEqual(sentence[: len(shown)], shown)
                self.assertIn("; run iat-nova restore", sentence)

    def test_doctor(self):
        """State and remedy are two texts."""
        found = [probe.refusal("x", error) for error, _ in self.errors]
        command = doctor.Doctor(mock.Mock(), None)
        command.settings = lambda _: None
        with mock.patch("iat_nova.checks.doctor.as_service", return_value=found):
            _, rows = command.take_action(mock.Mock(formatter="json", columns=()))
        for (error, _), row in zip(self.errors, rows, strict=True):
            self.assertEqual((text(error.state), text(error.remedy)), row[2:4])

    def test_qualify(self):
        """A test that could not be made says why, and what mends it."""
        for error, _ in self.errors:
            judged = run._refused(error)
            self.assertEqual((error.state, error.remedy), (judged.says, judged.remedy))

    def test_restore(self):
        """What was done on standard output, what failed on standard error."""
        error, sentence = self.errors[-1]
        with tempfile.TemporaryDirectory() as folder:
            for outcome in ({"side_effect": error}, {"return_value": (error.message,)}):
                out, err = io.StringIO(), io.StringIO()
                with (
                    mock.patch("iat_nova.agent.restoring.restore", **outcome),
                    mock.patch("sys.stdout", out),
                    mock.patch("sys.stderr", err),
                ):
                    failed = main.main(["restore", "--state-dir", folder]) != 0
                self.assertEqual("side_effect" in outcome, failed)
                wanted = f"iat-nova: {sentence}\n" if failed else f"{sentence}\n"
                self.assertEqual(wanted, (err if failed else out).getvalue())
