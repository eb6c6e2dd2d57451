"""What compiled code prints inside goes nowhere; what is printed around it arrives in order."""

from __future__ import annotations

import ctypes
import sys

from perfgate.silence import silence


def test_silence__drops_what_c_prints_and_keeps_the_rest(capfd):
    sys.stdout.write("before\n")
    with silence():
        ctypes.CDLL(None).puts(b"in between")
    sys.stdout.write("after\n")
    assert capfd.readouterr().out == "before\nafter\n"
