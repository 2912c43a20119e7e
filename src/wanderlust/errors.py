"""The one exception a user is meant to see."""


class UserError(Exception):
    """Something the caller can put right: one line that says what is wrong and what would be right.

    The command line prints it and exits with code 2; from Python it is an ordinary exception.
    """
