"""The command line: the names of the commands, and how each ends. Every command is a file of its own."""

from __future__ import annotations

import io
import sys
from importlib import import_module

import click

from youden.errors import YoudenError

COMMANDS = {
    "demo": "youden.cli.start.demo",
    "run": "youden.cli.ask.run",
    "plan": "youden.cli.ask.plan",
    "judge": "youden.cli.ask.judge",
    "fit": "youden.cli.read.fit",
    "study": "youden.cli.study",
    "extend": "youden.cli.grow.extend",
    "compare": "youden.cli.read.compare",
    "gate": "youden.cli.grow.gate",
    "rejudge": "youden.cli.grow.rejudge",
    "report": "youden.cli.read.report",
    "view": "youden.cli.read.view",
    "generate": "youden.cli.ask.generate",
    "import": "youden.cli.files.import_",
    "doctor": "youden.cli.start.doctor",
    "cassette": "youden.cli.files.cassette",
    "export": "youden.cli.read.export",
    "check": "youden.cli.start.check",
    "calibrate": "youden.cli.ask.calibrate",
    "salvage": "youden.cli.files.salvage",
}

UNDECIDED = 3
"""What a gate ends with that could not tell; it is no error."""
INTERRUPTED = 130


class Commands(click.Group):
    """Loads a command's file when it is asked for, so that `--help` stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(COMMANDS[cmd_name]).command
        return command


def _version(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        from youden import __version__

        click.echo(__version__)
        ctx.exit()


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version."
)
def youden() -> None:
    """Rank language-model agents without labels.

    Data goes to standard output, progress to standard error. Exit codes: 0 done, 1 a run fell short (the same command
    resumes it) or an agent is worse (gate), 2 bad input, 3 a gate is undecided, 130 interrupted (the same command resumes).
    """


def main() -> None:
    """Run one command; an error on purpose is one message and its exit code, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = youden.main(standalone_mode=False)
    except YoudenError as error:
        _complain(str(error))
        sys.exit(error.exit_code)
    except click.exceptions.NoArgsIsHelpError as shown:
        click.echo(shown.format_message())
        sys.exit(2)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        what = f"{error.filename or 'A file'}: {error.strerror or error}"
        _complain(f"{what}. Check the path, its permissions and the disk. [file]")
        sys.exit(2)
    except (KeyboardInterrupt, click.exceptions.Abort):
        _complain("Interrupted. What was answered is kept; the same command resumes.")
        sys.exit(INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


def _complain(message: str) -> None:
    from youden.text.printable import printable

    click.echo(f"error: {printable(message)}", err=True)
