"""Define the command `youden`: its subcommands, its handling of errors and signals, and its exit codes.

Modules of commands are imported only if a command or its help is used, so that `youden` starts fast.
"""

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
from youden.cli.options import LazyGroup, explain_ability
from youden.cli.stopping import SignalInterrupt, raise_on_signals
from youden.errors import YoudenError
from youden.resources import set_shadow_reporter
from youden.text.printable import format_command, mask_passwords, printable, replace_unencodable

HEADINGS: dict[str, dict[str, str]] = {
    "Get started": {
        "demo": "youden.cli.demo:demo_command",
        "init": "youden.cli.start:init_command",
        "doctor": "youden.cli.doctor:doctor_command",
        "check": "youden.cli.start:check_command",
        "completion": "youden.cli.start:completion_command",
    },
    "Plan and judge": {
        "run": "youden.cli.run:run_command",
        "plan": "youden.cli.run:plan_command",
        "judge": "youden.cli.run:judge_command",
        "generate": "youden.cli.pools:generate_command",
        "calibrate": "youden.cli.calibrate:calibrate_command",
        "stress": "youden.cli.calibrate:stress_command",
    },
    "Inspect results": {
        "fit": "youden.cli.results:fit_command",
        "label": "youden.cli.labeling:label_command",
        "quality": "youden.cli.labeling:quality_command",
        "compare": "youden.cli.results:compare_command",
        "audit": "youden.cli.audit:audit_command",
        "report": "youden.cli.results:report_command",
        "view": "youden.cli.results:view_command",
        "export": "youden.cli.pools:export_command",
    },
    "Extend and gate a run": {
        "extend": "youden.cli.extend:extend_command",
        "gate": "youden.cli.gate:gate_command",
        "rejudge": "youden.cli.extend:rejudge_command",
    },
    "Study the method": {
        "study": "youden.cli.study:study_command",
    },
    "Import and store": {
        "import": "youden.cli.pools:import_command",
        "cassette": "youden.cli.stores:cassette_command",
        "store": "youden.cli.stores:store_command",
    },
}
"""Heading in `--help` → name of a command → its module and object."""
COMMANDS = {name: location for commands in HEADINGS.values() for name, location in commands.items()}
"""Name of a command → its module and object."""

RESUMABLE = frozenset({"demo", "run", "judge", "generate", "calibrate", "stress", "extend", "rejudge"})
"""Commands that send requests and store the answers, so that running them again resumes them."""

DEFAULT_ENVIRONMENT = {"OPENBLAS_THREAD_TIMEOUT": "4"}
"""Environment variables that make the matrix threads of numpy sleep when idle; by default they spin after every product."""
MAX_MESSAGE_CHARACTERS = 600
"""Maximum length of a printed error message."""
UNDECIDED = 3
"""Exit code of a gate whose result is inconclusive."""


@click.command(
    cls=LazyGroup,
    groups=HEADINGS,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    epilog="To get started, run `youden demo`, then `youden init FILE` with your own responses. To check the installation, run "
    "`youden doctor`. To set up completion on Tab, see `youden completion --help`.",
)
@click.version_option(__version__, message="%(version)s", help="Print the version.")
@explain_ability
def youden() -> None:
    """Rank language-model agents without labels.

    A judge model compares pairs of responses, and its answers are turned into a ranking of the agents by ability.

    Results are written to standard output; progress and messages to standard error.

    \b
    Exit codes:
      0              success
      1              an incomplete run (run the same command again to resume
                     it), or a negative result: `gate` finds that an agent is
                     worse, no judge passes `calibrate`, or `cassette verify`
                     finds missing answers
      2              invalid input
      3              `gate` is undecided
      129, 130, 143  stopped by SIGHUP, Ctrl-C or SIGTERM

    If a command that sends requests was stopped, run it again to resume it.
    """


def main() -> None:
    """Run the command line and exit the process.

    An error of the user's input, of a file or of a plugin is printed as one message without a traceback. If youden itself has a
    bug, `_describe_plugin_error` raises the exception again, and the traceback is shown.
    """
    _prepare_process()
    try:
        with raise_on_signals(_format_stop_message):
            result = youden.main(standalone_mode=False)
    except YoudenError as error:
        _print_error(str(error))
        if error.slug in ("outage", "stopped"):
            _print_message(f"resume with: {_format_invocation()}")
        sys.exit(error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        sys.exit(2)
    except click.UsageError as error:
        click.UsageError(_format_usage_message(error), error.ctx).show()
        sys.exit(2)
    except click.ClickException as error:
        click.ClickException(_format_usage_message(error)).show()
        sys.exit(2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        problem = f"{error.filename or 'A file'}: {error.strerror or error}"
        _print_error(f"{problem}. Check the path, its permissions and the disk. [file]")
        sys.exit(2)
    except (KeyboardInterrupt, click.exceptions.Abort) as interrupt:
        signal_number = _get_signal_number(interrupt)
        with suppress(OSError):
            click.echo(_format_stop_message(signal_number), err=True)
        sys.exit(128 + signal_number)
    except Exception as error:
        message = _describe_plugin_error(error)  # raises the error again if it is a bug of youden
        _print_error(message)
        sys.exit(2)

    # a command returns an exit code, or None for success
    sys.exit(result if isinstance(result, int) else 0)


def _prepare_process() -> None:
    """Prepare the environment variables, the output streams and the reports of this process.

    Environment variables that the user has not set get their defaults. If a terminal cannot display a character, a similar one is
    printed. If a local file, such as a judge file, is used in place of a shipped file with the same name, a message reports it.
    """
    for name, value in DEFAULT_ENVIRONMENT.items():
        os.environ.setdefault(name, value)

    codecs.register_error("youden-replace", replace_unencodable)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="youden-replace")

    set_shadow_reporter(_print_message)


def _get_signal_number(stop: BaseException) -> int:
    """Return the number of the signal that stopped a command: SIGINT, unless `SignalInterrupt` states another one."""
    # click turns a KeyboardInterrupt into an Abort, whose cause is the original exception
    interrupt = stop if isinstance(stop, SignalInterrupt) else stop.__cause__
    return interrupt.number if isinstance(interrupt, SignalInterrupt) else signal.SIGINT


def _describe_plugin_error(error: Exception) -> str:
    """Describe an unexpected error that was raised in the code of a plugin, as a bug of that plugin.

    If no plugin raised the error, it is a bug of youden itself, and the error is raised again.
    """
    from youden.registry import find_plugin, locate_exception

    package = find_plugin(error)
    if package is None:
        raise error
    location = locate_exception(error)
    return (
        f"The plugin package {package} has a bug: {type(error).__name__}: {error} ({location}). "
        "Report it to the authors of the package. [plug-in]"
    )


def _format_stop_message(number: int) -> str:
    """Format the message for a command that a signal stopped; for a command that can be resumed, it states how."""
    message = f"Stopped ({signal.Signals(number).name})."
    if sys.argv[1:2] and sys.argv[1] in RESUMABLE:
        message += f" Received answers are stored. To resume, run: {_format_invocation()}"
    return printable(message)


def _format_invocation() -> str:
    """Format the command line of this process, with passwords masked."""
    arguments = [mask_passwords(argument) for argument in sys.argv[1:]]
    return format_command(["youden", *arguments])


def _print_error(message: str) -> None:
    """Print an error message; if it is too long, cut out its middle, because it ends with the remedy and the slug."""
    message = mask_passwords(message)  # before a password may be cut in two
    slug = re.search(r" \[[\w-]+\]$", message)
    if slug is not None and len(message) > MAX_MESSAGE_CHARACTERS:
        n_kept = (MAX_MESSAGE_CHARACTERS - 60) // 2
        n_cut = len(message) - 2 * n_kept
        message = f"{message[:n_kept]} … ({n_cut:,} more characters) … {message[-n_kept:]}"
    _print_message(f"error: {message}")


def _print_message(message: str) -> None:
    """Print a message to standard error, with passwords masked."""
    click.echo(printable(mask_passwords(message)), err=True)


def _format_usage_message(error: click.ClickException) -> str:
    """Format the message of an error of click, which may have several lines, with passwords masked."""
    lines = mask_passwords(error.format_message()).expandtabs(4).split("\n")
    return "\n".join(map(printable, lines))
