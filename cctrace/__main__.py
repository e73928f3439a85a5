"""`python -m cctrace` is the command `cctrace`."""

from cctrace.cli import main

if __name__ == "__main__":
    main()
