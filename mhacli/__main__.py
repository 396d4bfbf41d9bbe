"""`python -m mhacli`, and the console script."""

import gc
import sys

# Loading torch makes a million objects, none of them garbage: collecting as often as Python does by default costs a
# tenth of the time of a short command.
gc.set_threshold(100_000, 50, 100)


def console() -> None:
    """Run the command line and leave with its exit code; an interrupt while it loads is one too."""
    try:
        from mhacli.cli.app import main

        code = main()
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        code = 130
    gc.freeze()  # what is alive now need not be searched for garbage at the end
    sys.exit(code)


if __name__ == "__main__":
    console()
