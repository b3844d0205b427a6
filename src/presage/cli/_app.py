"""The commands put together, and what all of them share: version, errors without tracebacks."""

import inspect
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from presage.cli import (
    bench,
    dashboard,
    demo,
    design,
    doctor,
    export,
    import_,
    init,
    list,
    plot,
    replay,
    report,
    reproduce,
    run,
    show,
    storage,
    worker,
)
from presage.cli._config import defaults
from presage.errors import PresageError


class _Commands(TyperGroup):
    """Turns an error that presage raises on purpose into its message and exit code 1."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except PresageError as error:
            from presage.cli._output import err

            err().print(f"Error: {error}", style="red")
            raise typer.Exit(1) from None


def _flowing(doc: str | None) -> str:
    """A docstring whose paragraphs the terminal may wrap anew; those with indented lines, the examples, stay."""
    paragraphs = inspect.cleandoc(doc or "").split("\n\n")
    return "\n\n".join(text if "\n  " in text else text.replace("\n", " ") for text in paragraphs)


COMMANDS = (
    run.run, worker.worker, demo.demo, design.design, list.list_studies, show.show, export.export, import_.import_study,
    plot.plot, report.report, dashboard.dashboard, replay.replay_study, reproduce.reproduce, init.init, doctor.doctor,
)  # fmt: skip
app = typer.Typer(cls=_Commands, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="rich")
for command in COMMANDS:
    app.command(command.__name__.partition("_")[0], help=_flowing(command.__doc__))(command)


for name, group in {"storage": storage.app, "bench": bench.app}.items():
    for group_command in group.registered_commands:
        group_command.help = _flowing(group_command.callback.__doc__ if group_command.callback else None)
    app.add_typer(group, name=name)


def _version(wanted: bool) -> None:
    if wanted:
        from presage import __version__

        typer.echo(f"presage {__version__}")
        raise typer.Exit


EPILOG = (
    "First steps: presage demo, then presage run --help. Any option can also be set in presage.toml (presage init "
    "writes one) or as PRESAGE_COMMAND_OPTION, such as PRESAGE_RUN_TRIALS; flags win."
)


@app.callback(epilog=EPILOG)
def presage(
    context: typer.Context,
    config: Annotated[
        str | None,
        typer.Option(
            "--config",
            metavar="FILE",
            envvar="PRESAGE_CONFIG",
            help="Settings; presage.toml in this folder if there is one.",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Bayesian optimisation: find the best setting of something expensive to try."""
    context.default_map = defaults(context.command, config)
