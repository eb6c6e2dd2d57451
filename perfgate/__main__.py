"""Floor 5. ``python -m perfgate`` and the ``perfgate`` command."""

from __future__ import annotations


def main() -> None:
    """Run the command line; never returns."""
    from perfgate.cli.app import run

    raise SystemExit(run())


if __name__ == "__main__":
    main()
