"""The command line. Each command imports what it needs when it runs, so that help answers at once."""

__all__ = ["main"]


def main() -> None:
    """The `presage` command."""
    from presage.cli._app import app

    app(prog_name="presage")
