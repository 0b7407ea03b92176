# SPDX-License-Identifier: Apache-2.0
"""Times and durations are in people's units."""

import os
import time
import unittest
from unittest import mock

from iat_nova.cmd.arguments import moment
from iat_nova.common.untrusted import LAST_S
from iat_nova.report import times


class TimesTest(unittest.TestCase):
    """What is shown of seconds."""

    def test_duration(self) -> None:
        """Short ones have tenths; of long ones the two largest units are told."""
        for seconds, shown in (
            (-1, "0 s"),
            (0, "0 s"),
            (0.42, "0.4 s"),
            (9.94, "9.9 s"),
            (9.95, "10 s"),
            (59.6, "1 min"),
            (250, "4 min 10 s"),
            (3600, "1 h"),
            (7500, "2 h 5 min"),
            (86399, "23 h 59 min"),
            (90000, "1 d 1 h"),
            (11 * 86400 - 1, "10 d 23 h"),
            (LAST_S, f"{(LAST_S + 1) // 86400 - 1:.0f} d 23 h"),
            (LAST_S + 1, "for ever"),
            (float("inf"), "for ever"),
            (float("nan"), "for ever"),
        ):
            self.assertEqual(shown, times.duration(seconds))

    def test_moments(self) -> None:
        """Of the years 1970 to 9999, in UTC wherever the reader is."""
        with mock.patch.dict(os.environ, TZ="UTC-2"):
            time.tzset()
            self.addCleanup(time.tzset)
            self.assertEqual("1970-01-02 00:00:01 UTC", times.moment(86401))
            self.assertEqual(86401.0, moment("1970-01-02 00:00:01 UTC", 1e6, begin=True))
            self.assertEqual(86401.0, moment("00:00:01", 90000.0, begin=True))
            self.assertEqual(79201.0, moment("1970-01-02T00:00:01+02:00", 1e6, begin=True))
        self.assertEqual("a time before 1970", times.moment(-0.5))
        self.assertEqual("a time after 9999", times.moment(LAST_S + 1))
