"""`python -m wanderlust` is the `wanderlust` command."""

from wanderlust.cli import main

if __name__ == "__main__":
    main()
