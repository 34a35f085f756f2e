"""``python -m basestation`` is the command ``basestation``."""

import sys

from basestation.cli import main

if __name__ == "__main__":
    sys.exit(main())
