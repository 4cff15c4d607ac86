"""The ``harvest`` command."""

import argparse
import io
import os
import sys
from collections.abc import Mapping

from harvest_cli.aggregators import SHAPE_ERRORS, NotKnownError, TooOldError, UnreachableError, WrongQuestionError
from harvest_cli.arguments import parser
from harvest_cli.asking import Asker
from harvest_cli.commands import COMMANDS, Desk
from harvest_cli.completion import SCRIPTS
from harvest_cli.config import Aggregator, ConfigError, chosen, files, load
from harvest_cli.printing import complain, console

_NOT_FOUND, _WRONG, _NO_ANSWER, _INTERRUPTED = 1, 2, 3, 130


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # whatever a name holds, and whatever the terminal can show
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _run(_parsed(arguments))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:  # somebody's `head` had enough
        _drop_output()
        return 0
    except OSError as error:  # a full disk; trouble with asking is told where it happens
        complain(f"cannot write: {error.strerror}")
        _drop_output()
        return _WRONG
    return code


def _parsed(arguments: list[str] | None) -> argparse.Namespace:
    try:
        return parser().parse_args(arguments)
    except SystemExit:  # after --help: where nobody reads it, that is found out here, and not at Python's end
        sys.stdout.flush()
        raise


def _run(options: argparse.Namespace) -> int:
    if options.command == "completion":
        print(SCRIPTS[options.shell](), end="")
        return 0
    if options.command in {"agent-bundle", "relay-bundle", "token"}:
        return _in_kubernetes(options)
    try:
        asker = Asker(chosen(vars(options), os.environ, _configured(os.environ)))
    except ConfigError as error:
        complain(str(error))
        return _WRONG
    desk = Desk(options, asker.urls, asker, console())
    code = _answered(desk)
    for url, trouble in desk.aggregators.troubles.items():
        complain(f"warning: without {url}: {trouble}")
    for note in desk.aggregators.notes:
        complain(f"note: {note}")
    return code


def _in_kubernetes(options: argparse.Namespace) -> int:
    try:
        from harvest_cli import bundling, tokens  # noqa: PLC0415 - what they need, the other commands do without
    except ModuleNotFoundError as error:
        complain(f"{options.command} needs the Python package {error.name}: pip install 'harvest-cli[kubernetes]'")
        return _WRONG
    return tokens.run(options) if options.command == "token" else bundling.run(options)


def _answered(desk: Desk) -> int:
    try:
        return COMMANDS[desk.options.command](desk)
    except NotKnownError as error:
        complain(str(error))
        return _NO_ANSWER if desk.aggregators.troubles else _NOT_FOUND
    except WrongQuestionError as error:
        complain(str(error))
        return _WRONG
    except TooOldError as error:
        complain(str(error))
        return _WRONG
    except UnreachableError as error:
        complain(str(error))
        return _NO_ANSWER
    except SHAPE_ERRORS as error:
        complain(
            f"an aggregator's answer has another shape than this command knows ({error!r}): are they of one version?"
        )
        return _NO_ANSWER


def _configured(environment: Mapping[str, str]) -> tuple[Aggregator, ...]:
    """Read the first configuration file that there is."""
    return next((found for path in files(environment) if (found := load(path)) is not None), ())


def _drop_output() -> None:
    """Forget what could not be written, or Python would try and complain again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
