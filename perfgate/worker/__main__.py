"""Floor 3, worker. ``python SHIM --socket FD factory|child``: the process's entry.

In: the number of an inherited Unix stream socket, and the role. Out: protocol messages on that socket.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import sys
from typing import NoReturn

from perfgate.worker import child, factory, process
from perfgate.worker.channel import Channel
from perfgate.worker.provenance import OpenedFiles


def main(argv: list[str] | None = None) -> NoReturn:
    """Serve until the socket ends; never returns."""
    parser = argparse.ArgumentParser(prog="perfgate-worker", description="Started by perfgate; not for people.")
    parser.add_argument("--socket", type=int, required=True, help="descriptor of an inherited Unix stream socket")
    parser.add_argument("role", choices=("factory", "child"))
    arguments = parser.parse_args(argv)
    process.die_with_parent(os.getppid())
    try:
        channel = Channel.inherited(arguments.socket)
    except OSError as error:
        sys.exit(
            f"perfgate-worker: descriptor {arguments.socket} is no socket ({error.strerror}); perfgate starts this"
        )
    # A crash inside native code then leaves its stack in the log.
    faulthandler.enable()
    opened = OpenedFiles()
    opened.install()
    if arguments.role == "factory":
        factory.Factory(channel, opened).run()
    child.run(channel, opened, None)
    factory.leave()


if __name__ == "__main__":
    main()
