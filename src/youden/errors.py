"""Errors that this package raises on purpose.

    YoudenError                  base class                                            exit code 2
    ├── InputError               a file, an option or an argument is wrong              exit code 2
    │   ├── PoolError            read_pool, import: a pool cannot be read
    │   ├── ImportFormatError    import: the files of another tool have another layout
    │   ├── ConfigError          run, judge: a config, judge file or option is wrong
    │   ├── PlanError            make_plan: the design does not fit the pool; or plan and pool differ
    │   ├── RunFolderError       read_run, fit, report: a run folder lacks a file or column, or holds another run
    │   └── StatisticsError      rank, fit, youden.stats: the data do not support the estimate
    ├── JudgeError               judge: the judge cannot be used at all                 exit code 2
    ├── ReplayMissError          judge: a replay or cassette lacks the answer           exit code 2
    └── IncompleteRunError       judge: the run ended early; the same call resumes it   exit code 1
        ├── BudgetError          the cost cap was reached
        └── TooManyMissingError  more answers are missing than max_missing allows

Every message states what is wrong, the value received and a remedy, and ends in its slug: `… [pool-empty]`. A judge or batch
provider raises `youden.types.CallError` for a failed call, which the engine handles: it never reaches the user.
"""

from __future__ import annotations

from typing import ClassVar


class YoudenError(Exception):
    """Base of all errors raised on purpose.

    Attributes
    ----------
    message : str
        What is wrong, the value received and the remedy, without the slug.
    slug : str
        Stable short name of the error; `str(error)` is the message and the slug in brackets.
    exit_code : int
        Exit code of the command line.
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
    """Create an error from its pickled parts, because pickle cannot pass keyword arguments."""
    return kind(message, slug=slug)


class InputError(YoudenError):
    """A file, an option or an argument is wrong."""


class PoolError(InputError):
    """A pool of responses cannot be read."""


class ImportFormatError(InputError):
    """The files of another tool have an unexpected layout."""


class ConfigError(InputError):
    """A config, a judge file or an option is wrong."""


class PlanError(InputError):
    """The design does not fit the pool, or plan, trials and pool contradict each other."""


class RunFolderError(InputError):
    """A run folder lacks a file or column, has a damaged file, or holds another run."""


class StatisticsError(InputError):
    """The data do not support the estimate."""


class JudgeError(YoudenError):
    """The judge cannot be used at all, so that the run stops."""


class ReplayMissError(YoudenError):
    """A replay or cassette holds no answer to a request."""


class IncompleteRunError(YoudenError):
    """The run ended before all trials of its plan were judged; the same command or call resumes it."""

    exit_code: ClassVar[int] = 1


class BudgetError(IncompleteRunError):
    """The cap on cost was reached."""


class TooManyMissingError(IncompleteRunError):
    """More answers are missing than allowed."""
