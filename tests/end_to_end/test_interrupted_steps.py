"""Ctrl-C in the middle of captured steps: what they write over is written for all or for none."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lazyt.runtime.cpu import compile

pytestmark = pytest.mark.skipif(not compile.available(), reason="needs a C compiler")

PROGRAM = """
import random, signal, threading, time
import lazyt as lt

weights = [lt.zeros(n).realize() for n in (3, 700, 5000, 40)]

def step():
    for weight in weights:
        weight.add_(1)

captured = lt.jit(step)
for _ in range(6):
    captured()

main, armed, caught, torn = threading.main_thread().ident, False, 0, 0

def send():
    # as often as it takes: a busy machine may hardly have begun when the first ones come
    end = time.monotonic() + 60
    while caught < 20 and time.monotonic() < end:
        time.sleep(random.random() * 0.02)
        signal.pthread_kill(main, signal.SIGINT)

def interrupt(*_):  # once each time round, so that none strikes in the `except` itself
    global armed
    if armed:
        armed = False
        raise KeyboardInterrupt

signal.signal(signal.SIGINT, interrupt)
sender = threading.Thread(target=send)
sender.start()
while sender.is_alive():
    try:
        armed = True
        for _ in range(200):
            captured()
        armed = False
    except KeyboardInterrupt:
        caught += 1
        torn += len({v for w in weights for v in (w.min().item(), w.max().item())}) > 1
counts = {w[0].item() for w in weights}
captured()
print(caught >= 20, torn, {w[0].item() - 1 for w in weights} == counts, captured.why())
"""


def test_an_interrupt_leaves_no_half_written_state() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=100
    )
    assert (done.stdout, done.stderr) == ("True 0 True ['captured']\n", "")
