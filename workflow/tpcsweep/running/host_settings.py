# SPDX-License-Identifier: Apache-2.0
"""Settings of hosts: apply, verify and restore them by the user's commands, also after a run that was killed.

A ledger in the user's state folder names the settings in force before the first command runs, so it survives kill -9.
Its lock is held as long: one deployment at a time has settings, and a ledger without a holder is that of a dead job.
"""

import contextlib
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psutil

from tpcsweep.common import locks, processes, signals
from tpcsweep.common.files import state_folder, write_json
from tpcsweep.common.numbers import short
from tpcsweep.data.restorations import Restoration
from tpcsweep.sweeps.study import SweepStudy
from tpcsweep.sweeps.testbed_settings import HostSetting

MOST_TEXT = 1 << 16  # bytes of a command's output that are read
_SECRET = re.compile(
    r"""
    (?P<words>
        //[^/\s:@]+:(?=[^\s/@]+@)  # user:password@ in a URL
        | (?:--[\w-]*{name}[\w-]*[=\s]|[\w.-]*{name}[\w.-]*[=:])\s*
        | \bsshpass\s+-p\s* | (?:\s-u|--user)[=\s]\s* | \becho\s+(?=[^|;]+\|\s*sudo\s+-S)
        | \bBearer\s+ | \bBasic\s+ | authz=
    )
    (?:"[^"]*"|'[^']*'|(?!\$)[^\s@;&|"']+)
    """.replace("{name}", "(?:passw|passphrase|pass|pwd|secret|token|credential|_key|api-?key)"),
    re.VERBOSE | re.IGNORECASE,
)
Applied = Mapping[str, tuple[str, HostSetting]]
"""Settings by name, each with its value."""
Restored = Mapping[str, Mapping[str, str]]
"""Record of the restoration of each setting, for the provenance of its cells."""
_States = Mapping[str, str | None]


class SettingError(Exception):
    """A command of a setting failed, or settings could not be restored."""

    final = True  # another deployment would run the same command


@dataclass
class _Ledger:
    """The settings in force, with their restoring commands, and the last command that was started."""

    file: Path
    entries: list[dict[str, Any]]
    command: dict[str, Any]  # pid and start time, to end it if its job was killed

    @classmethod
    def read(cls, file: Path) -> Self:
        """Read a ledger, empty if the file is missing. Raises SettingError for any other content."""
        try:
            content = json.loads(file.read_text())
            wanted = {"setting", "value", "restore", "timeout", "folder"}
            if any(entry.keys() != wanted for entry in content["settings"]):
                raise ValueError
            return cls(file, content["settings"], content["command"])
        except FileNotFoundError:
            return cls(file, [], {})
        except (ValueError, LookupError, TypeError, AttributeError):
            fix = "restore the hosts of your `settings` by hand, then delete the file"
            raise SettingError(f"{file}: not a ledger of this version of tpcsweep. Fix: {fix}") from None

    def write(self) -> None:
        if self.entries:
            write_json(self.file, {"settings": self.entries, "command": self.command})
        else:
            self.file.unlink(missing_ok=True)

    def note(self, setting: str, value: str, how: HostSetting) -> None:
        about = {"restore": how.restore, "timeout": how.timeout, "folder": str(Path.cwd())}
        self.entries.append({"setting": setting, "value": value, **about})
        self.write()

    def started(self, pid: int) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            self.command = {"pid": pid, "started": psutil.Process(pid).create_time()}
            self.write()

    def end_command(self) -> None:
        """End the command that a killed job started, with its children, before hosts are restored."""
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError, KeyError):
            if psutil.Process(self.command["pid"]).create_time() == self.command["started"]:
                os.killpg(self.command["pid"], signal.SIGKILL)

    def restore(self, log: processes.Commands | None) -> tuple[list[str], list[str]]:
        """Restore the settings, last one first; return the restored ones, and the errors, whose entries remain."""
        done, problems = [], []
        for entry in reversed([*self.entries]):
            name = f"{entry['setting']} (was {entry['value']}): {entry['restore']}"
            try:
                _run(entry["restore"], entry["timeout"], log, self, Path(entry["folder"]))
            except SettingError as error:
                problems.append(f"settings.{entry['setting']}.restore: {error}")
                continue
            self.entries.remove(entry)
            self.write()
            done.append(name)
        return done, problems

    def restore_all(self, log: processes.Commands | None = None) -> list[str]:
        """Restore the settings and return them. Raises SettingError if one cannot be restored."""
        done, problems = self.restore(log)
        if problems:
            fix = f"run `tpcsweep reap`, or restore by hand and delete {self.file}"
            raise SettingError(f"{'; '.join(problems)}. Fix: {fix}")
        return done


def restore_left() -> list[str]:
    """Restore what jobs left that were killed, and return it. Raises SettingError if one cannot be restored."""
    if _ledger_file().exists():
        with contextlib.suppress(locks.LockedError), _locked(None) as ledger:
            return ledger.restore_all()
    return []


def require_same_user(study: SweepStudy) -> None:
    """Raise SettingError if jobs would run the commands as root of a user's namespaces, where ssh has no keys."""
    if study.has_settings and study.testbed.kind == "netns" and os.geteuid() != 0:
        fix = "run as root, or measure servers that run already (a testbed of kind endpoints)"
        raise SettingError(f"settings: commands on a testbed of kind netns need root. Fix: {fix}")


class InForce:
    """Settings that are in force."""

    def __init__(self, settings: Applied, before: _States, ledger: _Ledger, log: processes.Commands) -> None:
        """`before` are the states before the first command."""
        self._settings, self._before, self._ledger, self._log = settings, before, ledger, log
        self.provenance = {
            name: {
                "value": value,
                "command": without_secrets(how.values[value]),
                "restore": without_secrets(how.restore),
                **({} if text is None else {"verified": text}),
            }
            for (name, (value, how)), text in zip(settings.items(), self._verify(), strict=True)
        }
        """Value and commands of each setting, and the output of its `verify` before the first cell."""

    def changed(self) -> dict[str, str]:
        """Return the settings whose `verify` has another output than at first, each with the new output."""
        pairs = zip(self.provenance.items(), self._verify(), strict=True)
        return {name: text or "" for (name, first), text in pairs if text != first.get("verified")}

    def restored(self) -> dict[str, dict[str, str]]:
        """Return the record of the restoration of each setting: `restored`, and both states if they differ."""
        left = {entry["setting"] for entry in self._ledger.entries}
        after = _states(self._settings, self._log, self._ledger)
        if _differing(self._before, after) and (
            pause := max(how.settle for _, how in self._settings.values())
        ):
            time.sleep(pause)
            after = _states(self._settings, self._log, self._ledger)
        return {
            name: {"restored": "failed"} if name in left else _restoration(self._before[name], after[name])
            for name in self._settings
        }

    def _verify(self) -> Iterator[str | None]:
        for name, (_, how) in self._settings.items():
            with _named(f"{name}.verify"):
                yield how.verify and _run(how.verify, how.timeout, self._log, self._ledger)


@contextlib.contextmanager
def in_force(
    settings: Applied,
    log: Path,
    stage: Callable[[str], None],
    restored: Callable[[Restored], object] = lambda _: None,
) -> Iterator[InForce | None]:
    """Apply settings, verify them, and restore them on every way out; yield None without any.

    Waits for another deployment with settings, and restores first what a killed job left. Commands and their output are
    written to `log`. Calls `restored` at the end, if the settings were in force. Raises SettingError.
    """
    if not settings:
        yield None
        return
    commands = processes.Commands(log)
    with _locked(lambda holder: stage(f"waiting for the settings of {holder}")) as ledger:
        for left in ledger.restore_all(commands):
            stage(f"restored after a job that was killed: {left}")
        before, applied = _states(settings, commands, ledger), None
        try:
            for name, (value, how) in settings.items():
                stage(f"applying {name}={value}")
                ledger.note(name, value, how)
                with _named(f"{name}.values.{value}"):
                    _run(how.values[value], how.timeout, commands, ledger)
                time.sleep(how.settle)
            applied = InForce(settings, before, ledger, commands)
            yield applied
        finally:
            signals.ignore_signals()
            raising = sys.exception() is not None
            stage(f"restoring {', '.join(settings)}")
            _, problems = ledger.restore(commands)
            for problem in problems:
                stage(problem)
            try:
                if problems and not raising:
                    ledger.restore_all(commands)  # a second attempt, whose failure ends the job
            finally:
                if applied:
                    restored(applied.restored())


def without_secrets(command: str) -> str:
    """Remove the passwords and tokens from a command that are recognized by the words before them.

    The names of variables remain.
    """
    return _SECRET.sub(r"\g<words>[removed]", command)


def _states(settings: Applied, log: processes.Commands, ledger: _Ledger) -> _States:
    """Return the output of each `verify`; None without the command, or if it fails, as it may without a value."""
    states: dict[str, str | None] = dict.fromkeys(settings)
    for name, (_, how) in settings.items():
        if how.verify:
            with contextlib.suppress(SettingError):
                states[name] = _run(how.verify, how.timeout, log, ledger)
    return states


def _differing(before: _States, after: _States) -> bool:
    return any(None not in (before[name], after[name]) and before[name] != after[name] for name in before)


def _restoration(before: str | None, after: str | None) -> dict[str, str]:
    outcome: Restoration
    if before is None or after is None:
        outcome = "not compared"
    elif before == after:
        outcome = "as before"
    else:
        outcome = "another state"
        return {"restored": outcome, "before": before, "after": after}
    return {"restored": outcome}


@contextlib.contextmanager
def _named(key: str) -> Iterator[None]:
    try:
        yield
    except SettingError as error:
        raise SettingError(f"settings.{key}: {error}") from None


def _ledger_file() -> Path:
    # Homes may be shared by machines, which have locks of their own.
    return state_folder() / "settings" / f"{platform.node()}.json"


@contextlib.contextmanager
def _locked(waiting: Callable[[str], object] | None) -> Iterator[_Ledger]:
    file = _ledger_file()
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = locks.lock_file(file.with_suffix(".lock"), "a deployment", waiting)
    try:
        ledger = _Ledger.read(file)
        if ledger.entries:
            ledger.end_command()
        yield ledger
    finally:
        os.close(lock)


def _run(
    command: str, timeout: float, log: processes.Commands | None, ledger: _Ledger, folder: Path | None = None
) -> str:
    """Run a command in a shell, and return its standard output. Raises SettingError with its last line of output.

    It runs in a session of its own, which Ctrl-C does not reach. Its output goes to files, because a daemon that it
    starts would keep a pipe open.
    """
    begun = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        how = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": err, "start_new_session": True}
        try:
            shell = processes.start(
                ["/bin/sh", "-c", command], processes.user_environment(), cwd=folder, **how
            )
        except OSError as error:
            raise SettingError(str(error)) from None
        try:
            ledger.started(shell.pid)
            outcome = f"exit code {shell.wait(timeout)}"
        except subprocess.TimeoutExpired:
            outcome = f"no end after {short(timeout)} s"
        finally:
            if shell.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(shell.pid, signal.SIGKILL)
                shell.wait()
        texts = [_text(file) for file in (out, err)]
    lines = [line for text in texts for line in text.splitlines()]
    if log:
        output = "".join(f"#   {line}\n" for line in lines)
        log.note(f"{command}\n{output}# {outcome}, {short(time.monotonic() - begun)} s")
    if outcome != "exit code 0":
        raise SettingError(f"{command}: {outcome}: {(lines or ['no output'])[-1]}")
    return texts[0]


def _text(file: Any) -> str:
    file.seek(0)
    return str(file.read(MOST_TEXT).decode(errors="replace"))
