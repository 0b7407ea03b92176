# SPDX-License-Identifier: Apache-2.0
"""Times and durations are in people's units."""

import time
import unittest

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
        """Of the years 1970 to 9999, in local time or in UTC."""
        self.assertEqual("1970-01-02 00:00:01 UTC", times.utc(86401))
        for wall_s in (0, 1, 86401.5, LAST_S):
            shown = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(wall_s))
            self.assertEqual(shown, times.moment(wall_s))
        self.assertEqual("a time before 1970", times.moment(-0.5))
        self.assertEqual("a time after 9999", times.moment(LAST_S + 1))
