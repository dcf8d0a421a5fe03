"""The one exception that says: the input is at fault, and here is what to do about it."""


class InputError(ValueError):
    """Bad input, in one line that names what is wrong, where, and the remedy.

    The command line prints the line and exits with status 2; a library user can catch it as the
    ``ValueError`` that scikit-learn's conventions ask for.
    """
