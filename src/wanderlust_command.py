"""The `wanderlust` command: Ctrl-C ends it without a traceback, also before it has begun and after it has ended."""

import signal


def main() -> None:
    """Run the command line."""
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.SIG_IGN:  # in the background of a shell
        from wanderlust.cli import main

        main()
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from wanderlust.cli import main

        signal.signal(signal.SIGINT, usual)
        main()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
