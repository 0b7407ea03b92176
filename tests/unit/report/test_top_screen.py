# SPDX-License-Identifier: Apache-2.0
"""What each key makes of the live screen."""

import unittest

from iat_nova.report import top
from iat_nova.report.top_screen import HELP, SORTS, Act, Mode, Screen, press

TENANTS = [f"t{number}" for number in range(30)]


def after(*keys, screen=None, tenants=TENANTS):
    """Return the screen and the act of the last of some keys."""
    screen = screen or Screen(80, 24)
    act = Act.NONE
    for key in keys:
        screen, act = press(screen, key, tenants)
    return screen, act


class TestKeys(unittest.TestCase):
    def test_the_cursor(self):
        """It begins at an end, goes by one and by ten, and stays within the list."""
        for keys, chosen in (
            (("down",), "t0"),
            (("up",), "t29"),
            (("down", "down", "j"), "t2"),
            (("down", "page-down", "k"), "t9"),
            (("end", "down"), "t29"),
            (("down", "up"), "t0"),
            (("down", "end", "home"), "t0"),
        ):
            with self.subTest(keys):
                self.assertEqual(chosen, after(*keys)[0].chosen)
        self.assertIsNone(after("down", tenants=[])[0].chosen)
        gone, _ = after("down", screen=Screen(80, 24, chosen="left"))
        self.assertEqual("t0", gone.chosen)

    def test_sorting_goes_round(self):
        """Each press sorts by the next column; after the last comes the first."""
        self.assertEqual([*SORTS[1:], SORTS[0]], [after(*"s" * n)[0].sort for n in (1, 2, 3, 4)])

    def test_a_filter_is_typed(self):
        """Keys are letters while one types; Enter keeps, Esc forgets."""
        typed, act = after("/", "q", "x", "backspace", "d", "enter")
        self.assertEqual((Mode.LIST, "qd", Act.NONE), (typed.mode, typed.pattern, act))
        self.assertEqual("", after("/", "q", "esc")[0].pattern)
        self.assertEqual("", after("esc", screen=typed)[0].pattern)
        self.assertEqual("", after("/", "up", "\x1b")[0].pattern)

    def test_pausing_is_asked_for(self):
        """Only y does it; whatever else is pressed does nothing but end the question."""
        self.assertIs(Mode.CONFIRM, after("p")[0].mode)
        self.assertIs(Act.PAUSE, after("p", "y")[1])
        for key in ("n", "enter", "q", "p"):
            screen, act = after("p", key)
            self.assertEqual((Mode.LIST, Act.NONE), (screen.mode, act))

    def test_a_page(self):
        """Keys scroll it; q leaves the page, not the program."""
        page = Screen(80, 24, mode=Mode.PAGE)
        self.assertEqual(11, after("down", "page-down", screen=page)[0].offset)
        self.assertEqual(0, after("up", screen=page)[0].offset)
        screen, act = after("q", screen=page)
        self.assertEqual((Mode.LIST, Act.NONE), (screen.mode, act))

    def test_every_mode_can_be_ended(self):
        """The end of input quits, whatever is on the screen; a note goes with the next key."""
        for mode in Mode:
            self.assertIs(Act.QUIT, after("ctrl-d", screen=Screen(80, 24, mode=mode))[1])
        self.assertEqual("", after("x", screen=Screen(80, 24, note="no"))[0].note)

    def test_acts(self):
        """What is not the screen's own affair is asked for; unknown keys ask for nothing."""
        acts = {"q": Act.QUIT, "left": Act.EARLIER, "right": Act.LATER, "[": Act.MINUTE_EARLIER}
        acts |= {"enter": Act.GUEST, "e": Act.DECISION, "n": Act.NOW, "?": Act.HELP}
        self.assertEqual(acts, {key: after(key)[1] for key in acts})
        self.assertEqual((Screen(80, 24), Act.NONE), after("\x07"))

    def test_the_help_names_every_key(self):
        """Each key of the help does something."""
        self.assertLess(max(map(len, top.help_page())), 80)
        told = " ".join(keys for keys, _ in HELP)
        for key in ("Enter", "e", "s", "/", "left", "[", "n", "d", "p", "space", "h", "q"):
            self.assertIn(key, told)
