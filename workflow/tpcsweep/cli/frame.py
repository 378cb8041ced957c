# SPDX-License-Identifier: Apache-2.0
"""Frame of every command: exit codes of errors, and output on terminals without some letters."""

from __future__ import annotations

import codecs
import contextlib
import errno
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from typing import NoReturn, TextIO

import click

click.ClickException.exit_code = 2

INTERRUPTED = 128 + signal.SIGINT
READER_ENDED = 128 + signal.SIGPIPE
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
_PLAIN = {
    "→": "->", "×": "x", "…": "...", "–": "-", "—": "-", "−": "-", "±": "+-", "≥": ">=", "≤": "<=",
    "µ": "u", "μ": "u", "²": "2", "⁵": "^5", "⁶": "^6", "·": "*", "“": '"', "”": '"', "’": "'",
}  # fmt: skip
"""Plain letters for signs of messages and tables; "?" replaces all others that a terminal lacks."""


def _plain_letters(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    letters = error.object[error.start : error.end]
    return "".join(_PLAIN.get(letter, "?") for letter in letters), error.end


codecs.register_error("tpcsweep", _plain_letters)


def use_plain_letters() -> None:
    """Replace letters that the terminal's encoding lacks, instead of failing on them."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="tpcsweep")


@contextlib.contextmanager
def exit_codes() -> Iterator[None]:
    """End the command with 2 after an error, and as a signal would after Ctrl-C or without a reader.

    1 is a negative answer, which only a command itself gives. Errors of the system, of a missing library and of
    tpcsweep have a text for users; any other exception is a fault of tpcsweep, and its traceback is printed.
    """
    try:
        yield
    except (click.ClickException, click.exceptions.Exit):
        raise
    except (KeyboardInterrupt, click.Abort):
        _give_up_output()
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:
        end_without_reader()
    except Exception as error:
        _give_up_output()
        if (text := _text_for_users(error)) is not None:
            raise click.ClickException(text) from error
        traceback.print_exc()
        click.echo("Error: this is a fault of tpcsweep. Please report it with the lines above.", err=True)
        raise SystemExit(2) from error


def end_without_reader() -> NoReturn:
    _give_up_output()
    raise SystemExit(READER_ENDED)


def _text_for_users(error: Exception) -> str | None:
    if isinstance(error, OSError):
        return _system_error(error)
    if isinstance(error, MemoryError):
        return f"not enough memory{f': {error}' if str(error) else ''}"
    if isinstance(error, ImportError):
        from tpcsweep.common.extras import extra_of, missing_extras

        if extra := extra_of(error.name or ""):
            return "\n".join(missing_extras([extra])) or str(error)
        return f"tpcsweep is not installed completely: {error}. Install it again."
    return str(error) if type(error).__module__.startswith("tpcsweep.") else None


def _system_error(error: OSError) -> str:
    """Describe an error of the system in a line: place, problem, and the fix for a full disk or a read-only folder."""
    fix = ""
    if error.errno in _FULL:
        fix = ". Make room, then run the command again."
    elif error.errno in _FORBIDDEN and error.filename and _has_output():
        fix = ". Use -o with a place that you may write to."
    elif not error.filename:
        return str(error)
    return f"{error.filename or 'standard output or temporary files'}: {error.strerror}{fix}"


def _has_output() -> bool:
    """Return whether the command of the group that runs has the option -o."""
    context = click.get_current_context(silent=True)
    group = context.command if context else None
    if context is None or not isinstance(group, click.Group) or context.invoked_subcommand is None:
        return False
    command = group.get_command(context, context.invoked_subcommand)
    return command is not None and any(option.name == "output" for option in command.params)


def _give_up_output() -> None:
    """Discard output that cannot be written; otherwise Python tries again at its end and exits with 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            _discard(stream)
        except (AttributeError, ValueError):  # closed before the command began
            continue


def _discard(stream: TextIO) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, ValueError):
        os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
