"""`python -m wanderlust` is the `wanderlust` command."""

from wanderlust_command import main

if __name__ == "__main__":
    main()
