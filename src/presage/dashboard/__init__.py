"""A web page that follows running studies. Needs the `dashboard` extra: Starlette and Uvicorn."""

import socket
from typing import Any

from presage.errors import StudyError
from presage.storage import Storage

__all__ = ["is_loopback", "serve"]


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    Example:
        >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0")]
        [True, True, True, False]
    """
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def serve(
    storage: Storage, *, host: str = "127.0.0.1", port: int = 8321, token: str | None = None, ready: Any = None
) -> None:
    """Serve the dashboard until interrupted.

    Args:
        storage: whose studies are shown.
        host: the address to listen on; any but this machine's own needs a token.
        port: 0 takes a free one.
        token: what a browser must show once.
        ready: called with the page's address once it can be opened.
    """
    try:
        import uvicorn

        from presage.dashboard.app import create_app
    except ModuleNotFoundError as error:
        if error.name not in ("uvicorn", "starlette"):
            raise
        raise StudyError(
            f"the dashboard needs Starlette and Uvicorn, but there is no {error.name}; pip install 'presage[dashboard]'"
        ) from None

    loopback = is_loopback(host)
    app = create_app(storage, token=token, loopback=loopback)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        remedy = "give another --port, or 0 for a free one"
        raise StudyError(
            f"the dashboard must be able to listen on {host}:{port}, but: {error.strerror}; {remedy}"
        ) from None
    with listening:
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{listening.getsockname()[1]}/"
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1, server_header=False)
        server = uvicorn.Server(config)
        if ready is not None:
            ready(address + (f"login#{token}" if token else ""))
        server.run(sockets=[listening])
