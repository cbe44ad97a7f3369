"""The errors that this package raises on purpose, as a tree.

    YoudenError                  every error this package raises on purpose        exit code 2
    ├── InputError               a file, an option or an argument is wrong          exit code 2
    │   ├── PoolError            a pool of responses cannot be read
    │   ├── ImportFormatError    another tool's files are not what they claim to be
    │   ├── ConfigError          a YAML file or an option does not fit
    │   ├── PlanError            the design cannot be drawn from this pool
    │   ├── RunFolderError       a run's folder lacks a file or a column
    │   └── StatisticsError      the arrays given do not support the estimate
    ├── JudgeError               the judge cannot be used at all: the run stops     exit code 2
    ├── ReplayMissError          the store holds no answer to a request             exit code 2
    └── ShortRunError            the run ended before its plan was done             exit code 1
        ├── BudgetError          the cap on cost was reached
        └── TooManyMissingError  more answers are missing than allowed

Every message says what was wrong, what arrived and what to do, and ends in its slug: `… [pool-empty]`.
"""

from __future__ import annotations

from typing import ClassVar


class YoudenError(Exception):
    """Base of all errors raised on purpose.

    `message` says what was wrong, what arrived and what to do; `slug` is the stable short name it ends in.
    """

    exit_code: ClassVar[int] = 2

    def __init__(self, message: str, *, slug: str) -> None:
        super().__init__(f"{message} [{slug}]")
        self.message = message
        self.slug = slug

    def add(self, sentence: str) -> None:
        """Append a sentence to the message, before the slug."""
        self.message = f"{self.message} {sentence}"
        self.args = (f"{self.message} [{self.slug}]",)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, self.slug)


def _rebuild(kind: type[YoudenError], message: str, slug: str) -> YoudenError:
    return kind(message, slug=slug)


class InputError(YoudenError):
    """A file, an option or an argument is wrong."""


class PoolError(InputError):
    """A pool of responses cannot be read."""


class ImportFormatError(InputError):
    """Another tool's files are not what they claim to be."""


class ConfigError(InputError):
    """A YAML file or an option does not fit."""


class PlanError(InputError):
    """The design cannot be drawn from this pool."""


class RunFolderError(InputError):
    """A run's folder lacks a file or a column."""


class StatisticsError(InputError):
    """The arrays given do not support the estimate."""


class JudgeError(YoudenError):
    """The judge cannot be used at all: the run stops."""


class ReplayMissError(YoudenError):
    """The store holds no answer to a request."""


class ShortRunError(YoudenError):
    """The run ended before its plan was done; the same command resumes."""

    exit_code: ClassVar[int] = 1


class BudgetError(ShortRunError):
    """The cap on cost was reached."""


class TooManyMissingError(ShortRunError):
    """More answers are missing than allowed."""
