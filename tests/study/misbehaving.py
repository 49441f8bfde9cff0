"""Detectors that misbehave, each in its own way; the processes of cells import them."""

import os
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np

from sightline import Residuals


class Silent(Exception):
    """An error without a text."""

    def __str__(self):
        raise RuntimeError("no text")


class Base:
    """Expects the mean; a subclass changes one of the two steps."""

    def fit(self, recording):
        self.mean = recording.values.mean(axis=0)
        return self

    def residuals(self, recording):
        return Residuals(
            values=recording.values - self.mean,
            index=np.arange(recording.n_steps),
            channels=recording.channels,
        )


def _raise(error):
    raise error


def _recurse():
    return _recurse() + 1


def _hang():
    while True:
        time.sleep(1)


def _spin():
    while True:
        pass


def _child():
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    _hang()


def _fork():
    if os.fork() == 0:
        time.sleep(600)
    os._exit(4)


def _thread():
    threading.Thread(target=_hang).start()
    raise ValueError("leaves a thread")


def _deaf():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _hang()


def _flood():
    for _ in range(20_000):
        os.write(1, b"x" * 100)
        os.write(2, b"y" * 100 + b"\n")
    raise ValueError("wrote four megabytes")


def _close(*numbers):
    for number in numbers:
        os.close(number)
    raise ValueError("closed its files")


# What `fit` does.
IN_FIT = {
    "ValueError": lambda: _raise(ValueError("a value")),
    "KeyError": lambda: _raise(KeyError("a key")),
    "Story": lambda: _raise(RuntimeError("one line\nanother\x1b[2J\nand more")),
    "Long": lambda: _raise(RuntimeError("x" * 10_000_000)),
    "Silent": lambda: _raise(Silent()),
    "Exit": lambda: sys.exit("done"),
    "Interrupt": lambda: _raise(KeyboardInterrupt()),
    "Generator": lambda: _raise(GeneratorExit()),
    "Memory": lambda: _raise(MemoryError()),
    "TooMuch": lambda: np.ones(10**14),
    "Recursion": _recurse,
    "Warning": lambda: warnings.warn("beware", stacklevel=1) or _raise(ValueError("w")),
    "HardExit": lambda: os._exit(3),
    "Killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "Terminated": lambda: os.kill(os.getpid(), signal.SIGTERM),
    "Crash": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "Abort": os.abort,
    "NoInput": lambda: _close(0),
    "NoOutput": lambda: _close(1),
    "NoErrors": lambda: _close(2),
    "NoFiles": lambda: os.closerange(3, 256) or _raise(ValueError("closed all")),
    "ReadsInput": lambda: sys.stdin.read() or _raise(ValueError("read all")),
    "Flood": _flood,
    "Thread": _thread,
    "Fork": _fork,
    "Message": lambda: (
        os.write(1, b'{"outcome":{"is_done":true}}\n')
        and _raise(ValueError("told a lie"))
    ),
}
# What hangs in `fit`, until it is ended.
HANGING = {"Hang": _hang, "Spin": _spin, "Child": _child, "Deaf": _deaf}
# What `residuals` returns, from what it should.
RETURNED = {
    "Nothing": lambda good: None,
    "Number": lambda good: 3.0,
    "Array": lambda good: good.values,
    "Nan": lambda good: _changed(good, good.values * np.nan),
    "Infinite": lambda good: _changed(good, good.values + np.inf),
    "Complex": lambda good: _changed(good, good.values * 1j),
    "Texts": lambda good: _changed(good, good.values.astype(str)),
    "Objects": lambda good: _changed(good, good.values.astype(object) * [object()]),
    "Empty": lambda good: _changed(good, good.values[:0], good.index[:0]),
    "TooLong": lambda good: _changed(good, good.values, np.arange(len(good.index) + 9)),
    "Beyond": lambda good: _changed(good, good.values, good.index + 10**6),
    "Backwards": lambda good: _changed(good, good.values, good.index[::-1]),
    "Constant": lambda good: _changed(good, np.zeros_like(good.values)),
    "Huge": lambda good: _changed(good, good.values + 1e200),
    "Tiny": lambda good: _changed(good, good.values * 1e-200),
}


def _changed(good, values, index=None):
    index = good.index if index is None else index
    return Residuals(values=values, index=index, channels=good.channels)


class WritesIntoItsInput(Base):
    def residuals(self, recording):
        recording.values[:] = 7.0
        return super().residuals(recording)


def _make_classes():
    for name, act in (IN_FIT | HANGING).items():

        def fit(self, recording, act=act):
            act()
            return Base.fit(self, recording)

        globals()[name] = type(name, (Base,), {"fit": fit, "__module__": __name__})
    for name, change in RETURNED.items():

        def residuals(self, recording, change=change):
            return change(Base.residuals(self, recording))

        members = {"residuals": residuals, "__module__": __name__}
        globals()[name] = type(name, (Base,), members)


_make_classes()
NAMES = (*IN_FIT, *HANGING, *RETURNED, "WritesIntoItsInput")
