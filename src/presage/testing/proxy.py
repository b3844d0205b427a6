"""A TCP proxy that can lose everything sent through it, as a broken network does: silently."""

import select
import socket
import threading
from contextlib import suppress
from typing import Self

SIZE = 1 << 16


class Proxy:
    """Listens on this machine and passes on to a server.

    Args:
        server: host and port.
    """

    def __init__(self, server: tuple[str, int]) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._cut = threading.Event()
        self._closed = threading.Event()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """From now on nothing arrives, in either direction, and nobody is told; connections made before are dead."""
        self._cut.set()

    def restore(self) -> None:
        """New connections work again; those of before get an answer of their peer's system: reset."""
        self._hang_up()
        self._cut.clear()

    def close(self) -> None:
        """Refuse everything."""
        self._closed.set()
        self._listener.close()
        self._hang_up()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _hang_up(self) -> None:
        for pair in self._pairs:
            for end in pair:
                with suppress(OSError):
                    end.close()
        self._pairs = []

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while not self._closed.is_set():
                near, _ = self._listener.accept()
                far = socket.create_connection(self._server)
                self._pairs.append((near, far))
                threading.Thread(target=self._pass_on, args=(near, far), daemon=True).start()

    def _pass_on(self, near: socket.socket, far: socket.socket) -> None:
        with suppress(OSError, ValueError), near, far:  # closed by the other side, or by this
            while not self._closed.is_set():
                readable, _, _ = select.select([near, far], [], [], 0.1)
                if self._cut.is_set():
                    self._cut.wait()
                    threading.Event().wait(0.05)
                    continue
                for end in readable:
                    data = end.recv(SIZE)
                    if not data:
                        return
                    (far if end is near else near).sendall(data)
