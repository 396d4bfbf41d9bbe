"""The one family of errors that a user's mistake may raise; `mhacli.cli` catches it in one place."""


class MhaError(Exception):
    """A fact, a hint with what to type next, and the exit code that the command line gives for it."""

    exit_code = 2

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(MhaError):
    """Options that do not go together, or values out of their range."""

    exit_code = 2


class InputError(MhaError):
    """A file, shape or dtype that cannot be used; `tensor` names it for outer layers to add its file."""

    exit_code = 3

    def __init__(self, message: str, hint: str | None = None, tensor: str | None = None) -> None:
        super().__init__(message, hint)
        self.tensor = tensor


class TooLargeError(MhaError):
    """What was asked would need more memory than is allowed."""

    exit_code = 4
