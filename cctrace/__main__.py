"""`python -m cctrace` is the command `cctrace`."""

import sys

from cctrace.cli import main

if __name__ == "__main__":
    sys.exit(main())
