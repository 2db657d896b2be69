"""`python -m autosparse`."""

import sys

from autosparse.cli import main

if __name__ == "__main__":
    sys.exit(main())
