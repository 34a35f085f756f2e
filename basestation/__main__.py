"""``python -m basestation`` is the command ``basestation``."""

import sys


def main() -> int:
    """As `basestation.cli.main`; Ctrl-C before that is even loaded is no traceback either."""
    try:
        from basestation.cli import main as run
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return 130
    return run()


if __name__ == "__main__":
    sys.exit(main())
