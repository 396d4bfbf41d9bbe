"""`python -m mhacli`, and the console script."""

import sys


def console() -> None:
    """Run the command line and leave with its exit code; an interrupt while it loads is one too."""
    try:
        from mhacli.cli.app import main

        code = main()
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    console()
