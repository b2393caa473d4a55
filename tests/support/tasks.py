"""Tasks for processes, which have to find them by name."""

import os
import sys
import time

import pufferflow as pf


def paired(first, second):
    """Return what came in, and something new."""
    return [second, first, [first, "new"]]


def refusing(word):
    """Refuse, wherever it runs."""
    raise pf.Refused(f"No {word}.", allowed="another word", instead="yes")


def dying(parent):
    """End the process at once, unless it is the one that gave the task."""
    if os.getpid() != parent:
        os._exit(3)
    return "here"


def printing(word):
    """Print where results go."""
    sys.stdout.write("noise" * 1000)
    sys.stdout.flush()
    os.write(1, b"noise")
    return word


def sleeping(seconds):
    """Say who sleeps, and sleep."""
    time.sleep(seconds)
    return os.getpid()


def cube(number):
    """Return a number and who worked it out."""
    return number**3, os.getpid()
