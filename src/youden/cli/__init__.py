"""The command line: the names of the commands, and how each ends."""

from __future__ import annotations

import codecs
import io
import os
import re
import signal
import sys
from contextlib import suppress

import click

from youden import __version__
from youden.cli.options import LazyGroup
from youden.cli.stopping import Stopped, stoppable
from youden.errors import YoudenError
from youden.resources import set_shadow_reporter
from youden.text.printable import format_command, mask_passwords, printable, replace_unencodable

HEADINGS: dict[str, dict[str, str]] = {
    "Start": {
        "demo": "youden.cli.start:demo_command",
        "init": "youden.cli.start:init_command",
        "doctor": "youden.cli.start:doctor_command",
        "check": "youden.cli.start:check_command",
        "completion": "youden.cli.start:completion_command",
    },
    "Ask a judge": {
        "run": "youden.cli.run:run_command",
        "plan": "youden.cli.run:plan_command",
        "judge": "youden.cli.run:judge_command",
        "generate": "youden.cli.pools:generate_command",
        "calibrate": "youden.cli.calibrate:calibrate_command",
        "stress": "youden.cli.calibrate:stress_command",
    },
    "Read the result": {
        "fit": "youden.cli.results:fit_command",
        "label": "youden.cli.labelling:label_command",
        "quality": "youden.cli.labelling:quality_command",
        "compare": "youden.cli.results:compare_command",
        "report": "youden.cli.results:report_command",
        "view": "youden.cli.results:view_command",
        "export": "youden.cli.pools:export_command",
    },
    "Grow a run, week by week": {
        "extend": "youden.cli.extend:extend_command",
        "gate": "youden.cli.extend:gate_command",
        "rejudge": "youden.cli.extend:rejudge_command",
    },
    "Study the method": {
        "study": "youden.cli.study:study_command",
    },
    "Files": {
        "import": "youden.cli.pools:import_command",
        "cassette": "youden.cli.stores:cassette_command",
        "store": "youden.cli.stores:store_command",
    },
}
"""What `--help` groups, in its order: the commands of each heading and where they are."""
COMMANDS = {name: place for group in HEADINGS.values() for name, place in group.items()}

RESUMABLE = frozenset({"demo", "run", "judge", "generate", "calibrate", "stress", "extend", "rejudge"})
"""Commands that send requests and store the answers, so that the same command resumes them."""

IDLE = {"OPENBLAS_THREAD_TIMEOUT": "4"}
"""Tells threads that multiply matrices for numpy to sleep when there is nothing to do; else each spins on after every product."""
MOST_SAID = 600
"""Characters of an error as it is printed."""
UNDECIDED = 3
"""What a gate ends with that could not tell; it is no error."""


@click.command(
    cls=LazyGroup,
    groups=HEADINGS,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    epilog="First: `youden demo`. Your own agents: `youden init mine.csv`. What is installed: `youden doctor`. Names that "
    "complete on Tab: `youden completion --help`.",
)
@click.version_option(__version__, message="%(version)s", help="Print the version.")
def youden() -> None:
    """Rank language-model agents without labels.

    They are ranked by ability: how well others' responses let the judge recognise the same source, relative to this pool,
    this judge and these items. It rewards restating what others can be matched to (obscure or bureaucratic styles stand
    high, terse references low), and is no proof of correctness.

    Data goes to standard output, progress to standard error.

    Exit codes: 0 done; 1 a run fell short (the same command resumes it), or an agent is worse (gate); 2 bad input; 3 a gate
    is undecided; 130, 143 or 129 stopped by Ctrl-C, SIGTERM or SIGHUP (if the
    command sends requests, the same command resumes it).
    """


def main() -> None:
    """Run one command; an error on purpose is one message and its exit code, never a traceback."""
    for name, value in IDLE.items():
        os.environ.setdefault(name, value)
    codecs.register_error("plainly", replace_unencodable)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="plainly")
    set_shadow_reporter(_say)
    try:
        with stoppable(_last_words):
            code = youden.main(standalone_mode=False)
    except YoudenError as error:
        _complain(str(error))
        if error.slug in ("outage", "stopped"):
            _say(f"go on with: {_command()}")
        sys.exit(error.exit_code)
    except click.exceptions.NoArgsIsHelpError as shown:
        click.echo(shown.format_message())
        sys.exit(2)
    except click.UsageError as error:
        click.UsageError(mask_passwords(error.format_message()), error.ctx).show()
        sys.exit(2)
    except click.ClickException as error:
        click.ClickException(mask_passwords(error.format_message())).show()
        sys.exit(2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        what = f"{error.filename or 'A file'}: {error.strerror or error}"
        _complain(f"{what}. Check the path, its permissions and the disk. [file]")
        sys.exit(2)
    except (KeyboardInterrupt, click.exceptions.Abort) as stop:
        came = stop if isinstance(stop, Stopped) else stop.__cause__
        number = came.number if isinstance(came, Stopped) else signal.SIGINT
        with suppress(OSError):
            click.echo(_last_words(number), err=True)
        sys.exit(128 + number)
    except Exception as error:
        _complain(_of_a_plug_in(error))
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)


def _of_a_plug_in(error: Exception) -> str:
    """What to say of another package's bug. Raises: `error` itself where it is a bug of this one."""
    from youden.registry import find_plugin, locate_exception

    if (package := find_plugin(error)) is None:
        raise error
    what = f"The package {package}, which adds to youden, has a bug: {type(error).__name__}: {error} ({locate_exception(error)})"
    return f"{what}. Tell whoever wrote it. [plug-in]"


def _last_words(number: int) -> str:
    message = f"Stopped ({signal.Signals(number).name})."
    if sys.argv[1:2] and sys.argv[1] in RESUMABLE:
        message += f" What was answered is kept; the same command resumes: {_command()}"
    return printable(message)


def _command() -> str:
    return format_command(["youden", *map(mask_passwords, sys.argv[1:])])


def _complain(message: str) -> None:
    said, slug = message, ""
    if len(message) > MOST_SAID and (found := re.search(r" \[[\w-]+\]$", message)):
        said, slug = message[: MOST_SAID - 60], f" … ({len(message) - MOST_SAID + 60:,} more characters){found[0]}"
    _say(f"error: {said}{slug}")


def _say(message: str) -> None:
    click.echo(printable(mask_passwords(message)), err=True)
