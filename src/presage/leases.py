"""Who works on a study, and whether it still does: signs of life in the storage, by the storage's own clock."""

import contextlib
import logging
import math
import os
import secrets
import socket
import threading
import time
import uuid
from functools import cache
from typing import Literal

from presage.errors import StorageError
from presage.storage import Storage

log = logging.getLogger("presage")
SECONDS = 60.0  # without a sign of life, after which a worker counts as lost
BEATS = 4  # signs of life per lease, so that some may be late
FRESH = 1.0  # seconds for which an answer about who lives is believed
Kind = Literal["loop", "hand"]
_left: set[str] = set()  # owners of this process that forgot a storage which nobody else can look into


class Lease:
    """A worker's hold on the trials it was given, for as long as it renews it; where others could look, a thread does.

    Args:
        storage: where signs of life are kept.
        study: its name.
        kind: loop (it evaluates what it asks for, others may wait for it) or hand (a person's, who may forget).
        seconds: after which silence means that it is lost.
    """

    def __init__(self, storage: Storage, study: str, kind: Kind, seconds: float = SECONDS) -> None:
        self.owner = f"{process()}:{kind}-{secrets.token_hex(4)}"
        self.pid = os.getpid()
        self._storage, self._study = storage, study
        self._seconds = seconds if storage.shared else math.inf
        self._ended = threading.Event()
        self._living: set[str] = set()
        self._looked = self._grace = -math.inf
        self.renew()  # before the first trial is given to it, or others would think it lost
        if storage.shared:
            threading.Thread(target=self._beat, name="presage-lease", daemon=True).start()

    def renew(self) -> bool:
        """Show a sign of life; False where the last one was too long ago."""
        return self._storage.renew(self._study, self.owner, self._seconds)

    def end(self) -> None:
        """Leave; what it still held is free at once."""
        self._ended.set()
        self._storage.renew(self._study, self.owner, 0.0)

    def forget(self) -> None:
        """Show no more signs of life; may be called at any moment, by the garbage collector too."""
        self._ended.set()
        if not self._storage.shared:
            _left.add(self.owner)

    def _beat(self) -> None:
        while not self._ended.wait(self._seconds / BEATS):
            try:
                if self._study not in self._storage.studies():
                    return  # deleted
                self.renew()
            except StorageError as error:
                if not self._ended.is_set():
                    log.warning("no sign of life could be left, so trials may be given to others: %s", error)

    def lost(self, owner: str) -> bool:
        """Whether whoever has this name will not finish what it was given."""
        if owner == self.owner:
            return False
        if owner in _left or gone(owner):
            return True
        now = time.monotonic()
        if owner in self._living and now < self._looked + FRESH:
            return False
        self._living, self._looked = self._storage.living(self._study), now
        if owner in self._living:
            return False
        # If the storage was away, or this machine slept, everybody's time has run out; let them say that they live.
        if not self.renew():
            self._grace = now + self._seconds / BEATS
        return now >= self._grace


def by_hand(owner: str) -> bool:
    """Whether a person asked for the trial, who may or may not come back with a value."""
    return not owner.rpartition(":")[2].startswith("loop-")


def gone(owner: str) -> bool:
    """Whether the owner was a process of this machine and is known to have ended."""
    machine, pid, birth, _ = [*owner.rsplit(":", 3), "", "", ""][:4]
    if machine != _machine() or not pid.isdigit():
        return False  # another machine: only its lease can tell
    if os.path.isdir("/proc/self"):
        return _birth(int(pid)) != birth
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def process() -> str:
    """This process, told apart from a later one with the same number."""
    return f"{_machine()}:{os.getpid()}:{_birth(os.getpid())}"


def process_of(owner: str) -> str:
    """The process that an owner is in."""
    return owner.rsplit(":", 1)[0]


@cache
def _machine() -> str:
    """The host's name, and what tells machines and containers apart that have the same."""
    boot, space = str(uuid.getnode()), ""
    with contextlib.suppress(OSError):
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip()
        space = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    return f"{socket.gethostname()}/{boot[:8]}-{space}"


def _birth(pid: int) -> str:
    """When a process started, in the kernel's ticks; empty where it is gone or the system does not tell."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]  # a zombie is as gone as it will ever be
