# SPDX-License-Identifier: Apache-2.0
"""Which tests prove an interface of the hardware on which CPU: the page of supported hardware.

``tools/record-support`` makes that page's table from what passed; a unit test holds them together.
"""

ANY = "any"


def proves(interface, *, on=()):
    """Mark a test, or a class of them: if they pass, the agent drives this interface.

    `on` names CPUs for tests on a file tree (`events.Model.name`, or `ANY`); in the lab it is the
    guest's. What a subclass inherits is proven by it, too.
    """

    def mark(test):
        test.proves = (interface, tuple(on))
        return test

    return mark


def proven_by(test):
    """Return (interface, CPUs) of a test case's method, None where it proves none."""
    method = getattr(test, getattr(test, "_testMethodName", ""), None)
    return getattr(method, "proves", None) or getattr(test, "proves", None)
