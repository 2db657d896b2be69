"""Entry point of `python -m autosparse`, the command-line interface."""

import sys

from autosparse.cli import main

if __name__ == "__main__":
    sys.exit(main())
