"""Floor 5. ``python -m perfgate`` and the ``perfgate`` command."""

from __future__ import annotations


def main() -> None:
    """Run the command line; never returns."""
    try:
        from perfgate.cli.app import run

        code = run()
    except KeyboardInterrupt:  # while that was imported, when nothing had begun
        code = 130
    raise SystemExit(code)


if __name__ == "__main__":
    main()
