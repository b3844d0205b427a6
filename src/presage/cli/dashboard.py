"""`presage dashboard`: follow studies in a browser."""

import json
import secrets
from typing import Annotated

import typer

from presage.cli._studies import StorageOption, open_existing, shown


def dashboard(
    place: Annotated[str | None, typer.Argument(metavar="[STORAGE]", help="Short for --storage.")] = None,
    storage: StorageOption = None,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Where to listen; others than this machine need a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, metavar="N", help="0 takes a free one.")] = 8321,
    token: Annotated[
        str | None,
        typer.Option("--token", envvar="PRESAGE_TOKEN", metavar="TEXT", help="Asked for once; made up where needed."),
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as a line of JSON.")] = False,
) -> None:
    """Follow the studies of a storage in a browser, live.

    The page shows values, trials, what the model expects, workers and failures, and can pause, resume and stop runs. It
    is served to this machine only, unless --host says otherwise, which needs a token. Nothing is loaded from elsewhere.

    Examples:
      presage dashboard study.db
      presage dashboard study.db --host 0.0.0.0 --port 9000 --no-browser
    """
    from presage.cli._output import err
    from presage.dashboard import is_loopback, serve

    opened = open_existing(place or storage)
    if token is None and not is_loopback(host):
        token = secrets.token_urlsafe(16)

    def ready(address: str) -> None:
        if as_json:
            typer.echo(json.dumps({"address": address}))
        err().print(f"Following {shown(place or storage)} at {address}\nCtrl-C ends it.", soft_wrap=True)
        if browser:
            import threading
            import webbrowser

            threading.Timer(0.5, webbrowser.open, [address]).start()

    serve(opened, host=host, port=port, token=token, ready=ready)
