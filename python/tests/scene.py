"""What the tests have in common: a memory of their own that is emptied before each, signals, and how the outcome is told."""
import os
import signal
import sys
import time
import unittest

import polder


def segment(what):
    """A name that no other program has."""
    return f"shm:python-{what}-{os.getpid()}"


class Scene(unittest.TestCase):
    """Tests on the memory of a name."""

    SEGMENT = ""

    @classmethod
    def setUpClass(cls):
        cls.r = polder.attach(cls.SEGMENT, ceiling=128 << 20)

    @classmethod
    def tearDownClass(cls):
        polder.Memory.remove(cls.SEGMENT)

    def setUp(self):
        self.r.flushall()

    def assert_heeds_signals(self, work, after=0.05):
        """Whatever `work` waits for: a signal's exception ends it."""

        def interrupt(*_):
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, after)
        began = time.monotonic()
        try:
            self.assertRaises(KeyboardInterrupt, work)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        self.assertLess(time.monotonic() - began, 2)


def main(what):
    """Runs the tests of the program, and says how many have passed."""
    outcome = unittest.main(exit=False, verbosity=0).result
    bad = len(outcome.failures) + len(outcome.errors)
    print(f"{what}: {outcome.testsRun - bad} passed, {bad} failed")
    sys.exit(bad != 0)
