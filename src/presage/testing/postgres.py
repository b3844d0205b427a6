"""A PostgreSQL server of one's own, to be thrown away: for tests and benchmarks, where its programs are installed."""

import glob
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

SUPERUSER = "presage"
# Commits are as durable as in production. Connection slots are for workers that were killed and not yet noticed.
SETTINGS = {"max_connections": "100", "unix_socket_directories": "", "logging_collector": "off"}


def find(program: str) -> str | None:
    """The path of one of PostgreSQL's programs, which Debian keeps out of the PATH."""
    return shutil.which(program) or next(iter(sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{program}"))[::-1]), None)


def available() -> bool:
    """Whether a server can be started here."""
    return find("initdb") is not None and (os.getuid() != 0 or _other_user() is not None)


class Server:
    """A server on a free port of this machine, with an empty database; as a context manager it leaves nothing behind.

    Args:
        address: where it listens.
        prefix: put before the commands that start it, such as `ip netns exec NAME`.
        trust: a network from which connections need no password, besides this machine.
        settings: of its configuration file.
    """

    def __init__(
        self, address: str = "127.0.0.1", prefix: Sequence[str] = (), trust: str = "127.0.0.1/32",
        settings: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.address, self.prefix = address, list(prefix)
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="presage-postgres-"))
        self._user = _other_user() if os.getuid() == 0 else None  # PostgreSQL refuses to be run by root
        if self._user is not None:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        self._call("initdb", "-D", self._data, "-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
        with (self.folder / "data/postgresql.conf").open("a") as file:
            for name, value in {
                **SETTINGS,
                **(settings or {}),
                "listen_addresses": address,
                "port": str(self.port),
            }.items():
                file.write(f"{name} = '{value}'\n")
        with (self.folder / "data/pg_hba.conf").open("a") as file:
            file.write(f"host all all {trust} trust\n")
        self.start()

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    @property
    def url(self) -> str:
        """The address of its database."""
        return f"postgresql://{SUPERUSER}@{self.address}:{self.port}/postgres"

    def start(self) -> None:
        """Have it answer."""
        self._call("pg_ctl", "-D", self._data, "-l", str(self.folder / "log"), "-w", "-t", "60", "start", prefix=True)

    def stop(self, mode: str = "fast") -> None:
        """End it: fast (connections are cut), immediate (as after a power failure) or smart."""
        self._call("pg_ctl", "-D", self._data, "-m", mode, "-w", "-t", "60", "stop")

    def log(self) -> str:
        """What it wrote into its log."""
        return (self.folder / "log").read_text()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if (self.folder / "data/postmaster.pid").exists():
            self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _call(self, program: str, *arguments: str, prefix: bool = False) -> None:
        path = find(program)
        if path is None:
            raise FileNotFoundError(f"{program} must be installed; on Debian: apt-get install postgresql")
        who: dict[str, Any] = {}
        if self._user is not None:
            if prefix and self.prefix:  # which needs root
                path, arguments = "setpriv", (
                    f"--reuid={self._user.pw_uid}", f"--regid={self._user.pw_gid}", "--clear-groups", path, *arguments
                )  # fmt: skip
            else:
                who = {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}
        command = [*(self.prefix if prefix else []), path, *arguments]
        done = subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=self.folder, timeout=120, **who
        )
        if done.returncode:
            log = self.folder / "log"
            raise RuntimeError(f"{program} failed: {done.stderr}\n{log.read_text() if log.exists() else ''}")


def _other_user() -> pwd.struct_passwd | None:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    return None


def free_port() -> int:
    """A port of this machine that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(true: Any, seconds: float, what: str) -> None:
    """Look every 50 ms whether something holds, and fail if it does not in time."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} was due within {seconds:g} s")
        time.sleep(0.05)
