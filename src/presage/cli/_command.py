"""A command as the objective: its arguments, its process, and the number in its output."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any

from presage.cli._output import clean, line
from presage.cli._params import Texts, render
from presage.errors import StudyError, TrialError
from presage.executors import Runner
from presage.trial import Failure, Outcome, Trial, usable

GRACE = 3.0  # seconds between asking a process to end and killing it
OUTPUT_TAIL = 1 << 20  # bytes of standard output in which the last line is looked for
STDERR_TAIL = 4000  # bytes of standard error kept with a failed trial
BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


@dataclass(frozen=True)
class Command:
    """A command with {name} where a param goes; {{ and }} are literal braces.

    Attributes:
        template: program and arguments.
        json_field: where the value is in the last line of output, names joined by dots; None: the line is the value.
        texts: how options of choices are to be written, by name and by the option's JSON.

    Example:
        >>> Command(("train", "--lr={lr}", "{{}}"))({"lr": 0.1})
        ['train', '--lr=0.1', '{}']
    """

    template: tuple[str, ...]
    json_field: str | None = None
    texts: Texts = field(default_factory=dict)

    def __call__(self, params: Mapping[str, Any]) -> list[str]:
        """The argument list for some params."""

        def fill(match: re.Match[str]) -> str:
            name = match[1]
            if name is None:
                return match[0][0]
            return self.texts.get(name, {}).get(json.dumps(params[name])) or render(params[name])

        return [BRACES.sub(fill, argument) for argument in self.template]

    def value(self, output: str) -> float:
        """The number that the last line of output holds, or a TrialError that shows the line."""
        last = last_line(output)
        got = f"got {line(last)!r}" if last else "there was no output"
        if self.json_field is None:
            try:
                number = float(last)
            except ValueError:
                remedy = "print the number alone at the end, or use --json-field"
                raise Unreadable(f"the last line of output must be a finite number, but {got}; {remedy}") from None
            try:
                return usable(number)
            except TrialError:
                raise TrialError(f"the last line of output must be a finite number, but {got}") from None
        rule = f"the last line of output must be a JSON object with a finite number as {self.json_field!r}"
        try:
            inside = _inside(json.loads(last), self.json_field)
        except (ValueError, RecursionError):
            raise Unreadable(f"{rule}, but {got}") from None
        try:
            return usable(inside, f"field {self.json_field!r}")
        except TrialError as error:
            raise TrialError(f"{rule}, but {got} ({error})") from None


class Unreadable(TrialError):
    """Output that has no number where one is due, which says more about the command than about the params."""


def check_command(template: Sequence[str], names: Sequence[str]) -> None:
    """Each placeholder must be a parameter, each parameter have a place, and the program exist."""
    used = set()
    for argument in template:
        for match in BRACES.finditer(argument):
            if match[0] in ("{", "}"):
                remedy = "write a literal brace twice: {{ or }}"
                raise StudyError(f"braces must stand in pairs, but got {argument!r}; {remedy}")
            if match[1] is not None:
                used.add(match[1])
    unknown, unused = sorted(used - {*names}), [name for name in names if name not in used]
    if unknown:
        known = ", ".join(f"{{{name}}}" for name in names) or "none, since there is no --param"
        raise StudyError(
            f"a placeholder must be one of the parameters ({known}), but got {{{unknown[0]}}}; "
            f"add --param {unknown[0] or 'NAME'}=..., or write literal braces twice: {{{{ and }}}}"
        )
    if unused:
        raise StudyError(
            f"every parameter must have a place in the command, but {unused[0]!r} has none; "
            f"write {{{unused[0]}}} where its value goes, or leave --param {unused[0]}=... out"
        )
    program = template[0]
    if not BRACES.search(program) and shutil.which(program) is None:
        raise StudyError(
            f"a command must begin with a program that can be run, but {program!r} is none; check its path"
        )


def last_line(output: str) -> str:
    """The last line that is not blank, empty where there is none."""
    lines = (text.strip() for text in reversed(re.split(r"[\r\n]", output)))  # a progress bar ends its lines with \r
    return next((text for text in lines if text), "")


def _inside(found: Any, path: str) -> Any:
    while isinstance(found, dict) and path not in found and "." in path:
        name, _, path = path.partition(".")
        found = found.get(name)
    if not isinstance(found, dict) or path not in found:
        raise ValueError
    return found[path]


class CommandRunner(Runner):
    """Runs commands, each in a process group of its own that ends with the trial, at a timeout or at Ctrl-C.

    Args:
        workers: commands at once.
        timeout: seconds after which a command is ended, with all that it started.

    Attributes:
        proven: whether a value was ever read. Until then output that cannot be read ends the run: the next trials,
            which may take hours each, would print no better.
    """

    def __init__(self, workers: int, timeout: float | None = None) -> None:
        self.workers = workers
        self.proven = False
        self._timeout = timeout
        self._lock = threading.Lock()
        self._stopped = False
        self._alive: set[subprocess.Popen[bytes]] = set()
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="presage")  # one waits for each process

    def submit(self, objective: Any, trial: Trial) -> Future[Outcome]:
        return self._threads.submit(self._run, objective, trial)

    def close(self, cancel: bool) -> None:
        if cancel:
            self._threads.shutdown(wait=False, cancel_futures=True)
            with self._lock:
                self._stopped = True
                alive = list(self._alive)
            end(*alive)
        self._threads.shutdown()

    def _run(self, command: Command, trial: Trial) -> Outcome:
        arguments = command(trial.params)
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:  # files never fill up, as pipes do
            try:
                process = self._start(arguments, trial, output, errors)
            except (OSError, ValueError) as error:  # ValueError: a zero byte in an argument
                return Outcome(failure=Failure("error", f"cannot run {arguments[0]!r}: {error}", shlex.join(arguments)))
            if process is None:
                return Outcome(failure=Failure("lost", "stopped before it began"))
            try:
                process.wait(self._timeout)
            except subprocess.TimeoutExpired:
                end(process)  # now, so that its last words are in the record
                ending = f"took longer than {self._timeout:g} s"
                return Outcome(failure=Failure("timeout", ending, _record(arguments, errors, ending)))
            finally:
                end(process)  # also what a command that is through has left running
                with self._lock:
                    self._alive.discard(process)
            if process.returncode:
                ending = _ending(process.returncode)
                why = last_line(_tail(errors, STDERR_TAIL))
                message = f"{ending}: {line(why)}" if why else ending
                return Outcome(failure=Failure("error", message, _record(arguments, errors, ending)))
            try:
                value = command.value(_tail(output, OUTPUT_TAIL))
                self.proven = True
                return Outcome(value)
            except TrialError as error:
                if isinstance(error, Unreadable) and not self.proven:
                    raise
                return Outcome(failure=Failure("invalid", str(error), _record(arguments, errors, str(error))))

    def _start(self, arguments: list[str], trial: Trial, *files: IO[bytes]) -> "subprocess.Popen[bytes] | None":
        known = {"PRESAGE_TRIAL": str(trial.number), "PRESAGE_PARAMS": json.dumps(trial.params)}
        with self._lock:
            if self._stopped:
                return None
            process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=files[0], stderr=files[1], env={**os.environ, **known},
                start_new_session=True,  # Ctrl-C in the terminal reaches presage alone, and killpg all that was started
            )  # fmt: skip
            self._alive.add(process)
            return process


def end(*processes: "subprocess.Popen[bytes]") -> None:
    """End processes and all that they started: politely, and after a while not."""
    running = [process for process in processes if process.poll() is None]
    for process in running:
        _signal(process, signal.SIGTERM)
    deadline = time.monotonic() + GRACE
    for process in running:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
    for process in processes:
        _signal(process, getattr(signal, "SIGKILL", signal.SIGTERM))
    for process in running:
        process.wait()


def _signal(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, number)
        else:  # Windows has no process groups of this kind
            process.send_signal(number)


def _ending(code: int) -> str:
    if code > 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return f"killed by {name}" + (", perhaps for want of memory" if name == "SIGKILL" else "")


def _record(arguments: list[str], errors: IO[bytes], ending: str) -> str:
    """What to look at when a trial failed: the command, the end of its standard error, how it ended."""
    tail = clean("\n".join(_tail(errors, STDERR_TAIL).splitlines())).strip()
    return "\n".join(part for part in (f"$ {shlex.join(arguments)}", tail, ending) if part)


def _tail(file: IO[bytes], size: int) -> str:
    file.seek(max(0, file.seek(0, os.SEEK_END) - size))
    return file.read().decode(errors="replace")
