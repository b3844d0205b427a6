"""The command line: in process by Typer's runner, and by real processes where signals and start-up matter."""

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import presage
from presage.cli._app import app
from presage.cli._command import Command, CommandRunner, check_command
from presage.cli._objective import load_objective
from presage.cli._output import clean
from presage.cli._params import describe, literal, parse_params, parse_start
from presage.errors import SpaceError, StudyError, TrialError
from presage.trial import Trial

PYTHON = [sys.executable, "-I", "-S", "-c"]  # -S: starts in 10 ms instead of 50
SQUARE = [*PYTHON, "import sys; print('log'); print((float(sys.argv[1]) - 0.3) ** 2); print()", "{x}"]
QUICK = ["--surrogate", "random", "--seed", "1"]


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    """Each test in a folder of its own, without the caller's settings."""
    monkeypatch.delenv("PRESAGE_STORAGE", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    while STARTED:
        with STARTED.pop() as left:
            left.kill()


STARTED: list[subprocess.Popen] = []


def call(*arguments, code=0, env=None):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env=env)
    assert result.exit_code == code, (result.output, result.exception)
    return result


def flat(text):
    """What is said, without boxes, colours and line breaks."""
    return " ".join(re.sub(r"[│╭╮╰╯─]+", " ", clean(text)).split())


def process(*arguments):
    command = [sys.executable, "-c", "from presage.cli import main; main()", *map(str, arguments)]
    STARTED.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    return STARTED[-1]


def finish(started, code):
    out, err = started.communicate(timeout=60)
    assert started.returncode == code, (out, err)
    return out, err


def trials_of(storage="study.db", name=None):
    return json.loads(call("export", *([name] if name else []), "--storage", storage, "--format", "json").stdout)[
        "trials"
    ]


# Spaces and points as text.
def test_every_kind_of_parameter():
    texts = [
        "x=float:0:1",
        "lr=log:1e-5:1e-1",
        "s=step:0:1:0.1",
        "n=int:1:6",
        "m=logint:1:100",
        "k=intstep:16:64:16",
        "a=choice:relu,tanh",
        "c=const:3",
    ]
    space, _ = parse_params(texts)
    assert space == presage.Space({
        "x": presage.Float(0, 1), "lr": presage.Float(1e-5, 1e-1, log=True), "s": presage.Float(0, 1, step=0.1),
        "n": presage.Int(1, 6), "m": presage.Int(1, 100, log=True),
        "k": presage.Int(16, 64, step=16), "a": presage.Choice(["relu", "tanh"]),
        "c": presage.Constant(3),
    })  # fmt: skip
    again = parse_params(f"{name}={describe(dimension)}" for name, dimension in space.items())
    assert again.space == space


def test_options_are_python_values_but_reach_a_command_as_typed():
    space, texts = parse_params(["a=choice:1e-3,007,True,None,x", 'b=choice:["p,q", 2]', "c=const:1.50"])
    assert space["a"].options == (0.001, "007", True, None, "x")
    assert space["b"].options == ("p,q", 2)
    command = Command(("{a}", "{b}", "{c}"), texts=texts)
    assert [command({"a": a, "b": "p,q", "c": 1.5})[0] for a in space["a"].options] == [
        "1e-3",
        "007",
        "True",
        "None",
        "x",
    ]
    assert command({"a": "x", "b": "p,q", "c": 1.5})[1:] == ["p,q", "1.50"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("lr", "must read NAME=KIND"),
        ("=int:1:2", "must read NAME=KIND"),
        ("lr=uniform:0:1", "its kind must be one of"),
        ("lr=log:1e-5", "must read log:LOW:HIGH"),
        ("lr=log:a:b", "must read log:LOW:HIGH"),
        ("lr=log:0:1", "low > 0 must hold"),
        ("n=int:6:1", "low < high must hold"),
        ("n=int:1.5:3", "whole number"),
        ("s=step:0:1", "must read step:LOW:HIGH:STEP"),
        ("a=choice:x", "at least two options"),
        ("a=choice:x,,y", "one comma between"),
        ("a=choice:x,x", "options must differ"),
        ("a=choice:[1", "JSON list"),
    ],
)
def test_a_wrong_parameter_is_wrong_usage(text, says):
    with pytest.raises(SpaceError, match=re.escape(says)):
        parse_params([text])
    assert "Invalid value for --param" in flat(call("run", "-p", text, "--", "true", code=2).stderr)


def test_a_parameter_is_given_once():
    with pytest.raises(SpaceError, match="came twice"):
        parse_params(["x=int:1:2", "x=int:1:3"])


def test_starting_points():
    space = presage.Space({"lr": presage.Float(0, 1), "a": presage.Choice(["1", "2"]), "c": presage.Constant(7)})
    assert parse_start("lr=.5,a=1", space) == {"lr": 0.5, "a": "1", "c": 7}
    assert parse_start('{"lr": 0.5, "a": "2"}', space) == {"lr": 0.5, "a": "2", "c": 7}
    for wrong in ("lr", "lr=0.5", "lr=2,a=1", "lr=0.5,a=3", "lr=0.5,a=1,zz=1", "lr=1,lr=1", "{"):
        with pytest.raises(SpaceError):
            parse_start(wrong, space)
    assert [literal(text) for text in ("nan", "Infinity", "1e999", "-3", "[1]")] == [
        "nan",
        "Infinity",
        "1e999",
        -3,
        "[1]",
    ]


# Commands.
def test_placeholders():
    command = Command(("--lr={lr}", "{{{n}}}", "{{lr}}", "{a}"))
    assert command({"lr": 0.1 + 0.2, "n": 3, "a": "{n} $HOME; rm"}) == [
        "--lr=0.30000000000000004", "{3}", "{lr}", "{n} $HOME; rm",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("template", "says"),
    [
        (["true", "{y}"], "but got {y}"),
        (["true", "{}", "{x}"], "but got {}"),
        (["true"], "'x' has none"),
        (["true", "{x", "{x}"], "braces must stand in pairs"),
        (["true", "{x}}"], "braces must stand in pairs"),
        (["no-such-program", "{x}"], "program that can be run"),
    ],
)
def test_a_wrong_command_is_wrong_usage(template, says):
    with pytest.raises(StudyError, match=re.escape(says)):
        check_command(template, ["x"])
    assert "Invalid value for COMMAND" in flat(call("run", "-p", "x=float:0:1", "--", *template, code=2).stderr)


def test_a_command_needs_parameters():
    assert "at least one --param" in flat(call("run", "--", "true", "a", code=2).stderr)


@pytest.mark.parametrize(
    ("output", "field", "value"),
    [
        ("epoch 1\n0.25\n\n", None, 0.25),
        ("10%\r100%\r\n-3\r\n", None, -3.0),
        ('{"loss": 1}\n{"loss": 2, "a": {"b.c": 4, "d": {"e": 5}}}', "loss", 2.0),
        ('{"a": {"b.c": 4, "d": {"e": 5}}}', "a.b.c", 4.0),
        ('{"a": {"b.c": 4, "d": {"e": 5}}}', "a.d.e", 5.0),
        ('{"text": "caf\u00e9\u00a0\u2028", "loss": 1}', "loss", 1.0),
    ],
)
def test_the_value_in_the_output(output, field, value):
    assert Command((), field).value(output) == value


@pytest.mark.parametrize(
    ("output", "field", "says"),
    [
        ("", None, "there was no output"),
        ("loss: 0.3", None, "'loss: 0.3'"),
        ("nan", None, "finite number"),
        ("0.3", "loss", "'0.3'"),
        ('{"a": 1}', "loss", "'loss'"),
        ('{"loss": null}', "loss", "NoneType"),
        ('{"loss": true}', "loss", "bool"),
        ('{"loss": NaN}', "loss", "nan"),
        ('{"a": 1}', "a.b", "'a.b'"),
    ],
)
def test_output_without_a_value(output, field, says):
    with pytest.raises(TrialError, match=re.escape(says)):
        Command((), field).value(output)


def outcome_of(*command, timeout=None, field=None):
    with CommandRunner(1, timeout) as runner:
        return runner.submit(Command(command, field), Trial(3, {"x": 0.5})).result()


def test_what_a_command_is_given():
    code = "import json, os, sys; p = json.loads(os.environ['PRESAGE_PARAMS']); print(sys.stdin.read(), p['x'] + 3)"
    assert outcome_of(*PYTHON, code).value == 3.5
    assert outcome_of(*PYTHON, "import os; print(os.environ['PRESAGE_TRIAL'])").value == 3


def test_a_command_that_fails():
    failure = outcome_of(
        *PYTHON, "import sys; print(1); print('first\\n\\x1b[31mwhy [red]', file=sys.stderr); sys.exit(3)"
    ).failure
    assert (failure.kind, failure.message) == ("error", "exit code 3: why [red]")
    assert failure.traceback.startswith("$ ")
    assert failure.traceback.endswith("first\nwhy [red]\nexit code 3")
    assert outcome_of(*PYTHON, "import os; os.kill(os.getpid(), 9)").failure.message.startswith("killed by SIGKILL")
    assert outcome_of("/no/such/program").failure.kind == "error"
    assert outcome_of(*PYTHON, "print('a\\0')", "\0").failure.kind == "error"
    failure = outcome_of(*PYTHON, "print('inf')").failure
    assert failure.kind == "invalid"
    assert "'inf'" in failure.message
    with pytest.raises(TrialError, match="'loss: 3'"):  # as yet nothing could be read, so the command is wrong
        outcome_of(*PYTHON, "print('loss: 3')")


def test_much_output_does_not_block():
    code = "import sys; sys.stderr.write('e' * 300_000); sys.stdout.write('o' * 300_000 + chr(10)); print(7)"
    assert outcome_of(*PYTHON, code).value == 7


FAMILY = """
import subprocess, sys, time, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN) if sys.argv[2] == "stubborn" else None
child = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"])
open(sys.argv[1], "w").write(str(child.pid))
print(1, flush=True)
time.sleep(float(sys.argv[3]))
"""


def gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # the second where it ends while it is read
        return True


def wait_until(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at /proc")


@needs_proc
@pytest.mark.parametrize("manner", ["obedient", "stubborn"])
def test_a_timeout_ends_all_that_a_command_started(tmp_path, monkeypatch, manner):
    monkeypatch.setattr("presage.cli._command.GRACE", 0.3)
    outcome = outcome_of(*PYTHON, FAMILY, str(tmp_path / "pid"), manner, "60", timeout=1.0)
    assert outcome.failure.kind == "timeout"
    wait_until(lambda: gone((tmp_path / "pid").read_text()))


@needs_proc
def test_a_command_that_leaves_something_running_does_not_block(tmp_path):
    assert outcome_of(*PYTHON, FAMILY, str(tmp_path / "pid"), "obedient", "0").value == 1
    wait_until(lambda: gone((tmp_path / "pid").read_text()))


# presage run.
def test_run_a_command_and_continue_it(tmp_path):
    arguments = ["-p", "x=float:0:1", "--storage", "study.db", "--name", "[red]x", *QUICK]
    first = call("run", *arguments, "--trials", 4, "--start", "x=0.3", "--", *SQUARE)
    assert first.stdout.startswith("best value 0.0 at trial 0\n  x  0.3\n")
    assert "trial 0: value 0, best 0" in first.stderr
    assert "Continuing" not in first.stderr
    second = call("run", *arguments, "--trials", 6, "--start", "x=0.3", "--jobs", 2, "--", *SQUARE)
    assert "Continuing study '[red]x' in study.db: 4 trials done, best 0." in second.stderr
    third = call("run", *arguments, "--trials", 6, "--", *SQUARE)
    assert "raise it to go on" in third.stderr
    trials = trials_of()
    assert [t["state"] for t in trials] == ["complete"] * 6
    assert all(t["value"] == (t["params"]["x"] - 0.3) ** 2 for t in trials)
    assert trials[0]["source"] == "enqueued"
    other = call("run", "-p", "x=float:0:2", "--storage", "study.db", "--name", "[red]x", "--", *SQUARE, code=1)
    assert "its space must be" in flat(other.stderr)
    assert "Traceback" not in other.output


def test_a_resumed_study_keeps_its_surrogate():
    arguments = ["-p", "x=float:0:1", "-s", "study.db", "--trials"]
    call("run", *arguments, 2, "--surrogate", "random", "--initial", 1, "--", *SQUARE)
    call("run", *arguments, 4, "--", *SQUARE)
    assert [t["source"] for t in trials_of()] == ["random"] * 4


def test_quiet_says_the_result_only_and_json_field_and_maximize():
    code = [*PYTHON, 'import sys; print(\'{{"a": {{"score": %s}}}}\' % sys.argv[1])', "{x}"]
    options = ["--quiet", "--maximize", "--json-field", "a.score", "--trials", 5, *QUICK]
    result = call("run", "-p", "x=int:1:9", *options, "--start", "x=9", "--", *code)
    assert result.stdout == "best value 9.0 at trial 0\n  x  9\n"
    assert result.stderr == ""


def test_a_finite_space_runs_out():
    result = call("run", "-p", "x=choice:1,2", "--trials", 9, *QUICK, "--", *SQUARE)
    assert "Every point of the space was tried." in result.stderr
    assert "--storage study.db keeps it" in flat(result.stderr)


def test_target_and_patience_stop():
    result = call("run", "-p", "x=float:0:1", "--start", "x=0.3", "--target", "1e-9", *QUICK, "--", *SQUARE)
    assert "The target is reached." in result.stderr
    result = call("run", "-p", "x=float:0:1", "--start", "x=0.3", "--patience", "2", *QUICK, "--", *SQUARE)
    assert "No better value" in result.stderr


def test_failures_of_a_command():
    fails = [*PYTHON, "import sys; sys.exit('bad [bold]x' if float(sys.argv[1]) > 0.5 else print(1))", "{x}"]
    start = ["--start", "x=0.9", "--start", "x=0.1"]
    result = call("run", "-p", "x=float:0:1", *start, "--trials", 2, "-s", "study.db", *QUICK, "--", *fails)
    assert "trial 0: failed (error: exit code 1: bad [bold]x)" in result.stderr
    assert "1 of 2 trials failed" in result.stderr
    shown = call("show", "--storage", "study.db").stdout
    assert "trial 0: error: exit code 1: bad [bold]x" in shown


def test_too_many_failures_end_the_run():
    fails = [*PYTHON, "import sys; sys.exit('the reason')", "{x}"]
    result = call("run", "-p", "x=float:0:1", "--max-failures", 3, *QUICK, "--", *fails, code=1)
    said = flat(result.stderr)
    assert "failed 3 times in a row" in said
    assert "the reason exit code 1" in said
    assert "Traceback" not in said


def test_no_value_at_all():
    result = call("run", "-p", "x=float:0:1", "--trials", 2, *QUICK, "--", *PYTHON, "print('nan', {x} * 0)", code=1)
    assert "but got 'nan 0.0'" in flat(result.stderr)
    result = call("run", "-p", "x=float:0:1", "--trials", 2, *QUICK, "--", *PYTHON, "{x}; print('nan')", code=1)
    assert "no trial has a value" in result.stderr
    assert "invalid: the last line of output must be a finite number" in flat(result.stderr)


@pytest.mark.parametrize("wrong", ["print('loss', {x})", "{x}"])
def test_a_command_that_prints_no_number_is_found_out_at_once(wrong):
    """The next trials may take hours each; and the first, which waits, is what a mended command is given first."""
    options = ["run", "-p", "x=float:0:1", "--trials", 3, "--storage", "study.db", *QUICK, "--", *PYTHON]
    result = call(*options, wrong, code=1)
    assert "print the number alone at the end, or use --json-field" in flat(result.stderr)
    assert [t["state"] for t in trials_of()] == ["waiting"]
    call(*options, "print({x})")
    assert [t["state"] for t in trials_of()] == ["complete"] * 3
    # Once it has worked, a line that cannot be read is one trial's failure.
    options[options.index(3)] = 4
    call(*options, "{x}; print('out of memory')")
    assert [t["state"] for t in trials_of()] == ["complete"] * 3 + ["failed"]


def test_timeout_of_a_command():
    slow = [*PYTHON, "import sys, time; time.sleep(30 if sys.argv[1] == '1' else 0); print(1)", "{x}"]
    start = ["--start", "x=1", "--start", "x=2"]
    call("run", "-p", "x=int:1:2", *start, "--jobs", 2, "--timeout", 1, "-s", "study.db", *QUICK, "--", *slow)
    assert [(t["failure"] or {}).get("kind") for t in trials_of()] == ["timeout", None]


@pytest.mark.parametrize("where", ["function", "SPACE", "space", "dictionary"])
def test_run_a_function(where):
    space = "presage.Space({'x': presage.Float(0, 1)})"
    line = {
        "function": f"loss.space = {space}", "SPACE": f"SPACE = {space}", "space": f"space = {space}",
        "dictionary": "SPACE = {'x': presage.Float(0, 1)}",
    }[where]  # fmt: skip
    Path(f"mine_{where}.py").write_text(f"import presage\ndef loss(params):\n    return params['x']\n{line}\n")
    result = call("run", f"mine_{where}:loss", "--trials", 2, "--start", "x=0", *QUICK)
    assert result.stdout.startswith("best value 0.0 at trial 0")


def test_run_a_function_with_parameters_in_processes():
    Path("mine_jobs.py").write_text(
        "import os\nhome = os.getpid()\ndef loss(params):\n    return float(params['c'] == 3) + home\n"
    )
    arguments = ["-p", "x=float:0:1", "-p", "c=const:3", "--jobs", 2, "--timeout", 30, "--trials", 3, "-s", "study.db"]
    call("run", "mine_jobs:loss", *arguments, *QUICK)
    values = [t["value"] for t in trials_of()]
    assert len(values) == 3
    assert os.getpid() + 1 not in values


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("no_such_module:loss", "there is no 'no_such_module'"),
        ("mine_wrong:zz", "has no 'zz'; it has loss"),
        ("mine_wrong:number", "is a int"),
        ("mine_wrong:loss", "a search space is needed"),
        ("mine_broken:loss", "ZeroDivisionError"),
        ("mine_needs:loss", "No module named 'no_such_need'"),
    ],
)
def test_a_wrong_function(target, says):
    Path("mine_wrong.py").write_text("number = 3\ndef loss(params):\n    return 1\n")
    Path("mine_broken.py").write_text("1 / 0\n")
    Path("mine_needs.py").write_text("import no_such_need\n")
    sys.path[:] = [path for path in sys.path if "test_a_wrong_function" not in path]
    for name in ("mine_wrong", "mine_broken", "mine_needs"):
        sys.modules.pop(name, None)
    assert says in flat(call("run", target, code=1).stderr)


def test_dotted_targets():
    objective, module = load_objective("presage.functions:branin.dim")
    assert module is presage.functions
    assert objective(2) == presage.functions.branin


def test_wrong_usage():
    assert "--json-field" in flat(call("run", "presage.functions:branin", "--json-field", "a", code=2).stderr)
    assert "--timeout" in flat(call("run", "presage.functions:branin", "--timeout", 0, code=2).stderr)
    wrong_start = call("run", "presage.functions:branin", "--start", "x=1", "--storage", "study.db", code=2)
    assert "Invalid value for --start" in flat(wrong_start.stderr)
    assert not Path("study.db").exists()
    assert "surrogate must be one of" in flat(
        call("run", "presage.functions:branin", "--surrogate", "zz", code=1).stderr
    )
    call("run", code=2)
    call("no-such-command", code=2)


# demo, list, show, export.
def test_demo():
    result = call("demo", "--trials", 12)
    assert "The known minimum is 0.397887" in result.stdout
    assert "presage run --help" in result.stdout
    assert "must be one of" in flat(call("demo", "--function", "zz", code=1).stderr)


def odd_study():
    space = presage.Space({
        "value": presage.Choice(["a,b", 'say "x"\r\nthen', "[red]é\x1b[31m"]),
        "flag": presage.Choice([True, False, None, [1, 2]]),
        "depth": presage.Int(1, 3, when={"flag": [True]}),
    }, constraints=[lambda params: True])  # fmt: skip
    study = presage.Study(space, direction="maximize", storage="odd.db", name="[red]odd", seed=1)
    rows = [{"value": "a,b", "flag": True, "depth": 2}, {"value": 'say "x"\r\nthen', "flag": None}]
    for params in [*rows, {"value": "[red]é\x1b[31m", "flag": [1, 2]}, {"value": "a,b", "flag": False}]:
        study.enqueue(params)
    study.tell(study.ask(), 0.1 + 0.2, stddev=0.5, metrics={"acc": 0.25})
    study.tell(study.ask(), -1.0)
    study.tell(study.ask(), failed='no, "really"\nnot [bold]')
    study.ask()
    return study


def test_export_as_csv():
    odd_study()
    text = call("export", "[red]odd", "--storage", "odd.db").stdout_bytes.decode()
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert rows[0] == [
        "number", "state", "value", "params.value", "flag", "depth", "metrics.acc", "stddev", "source", "attempt",
        "started", "finished", "latency", "failure", "message",
    ]  # fmt: skip
    assert rows[1][:10] == ["0", "complete", "0.30000000000000004", "a,b", "true", "2", "0.25", "0.5", "enqueued", "1"]
    assert rows[2][:8] == ["1", "complete", "-1.0", 'say "x"\r\nthen', "null", "", "", ""]
    assert rows[3][:6] == ["2", "failed", "", "[red]é\x1b[31m", "[1, 2]", ""]
    assert rows[3][-2:] == ["error", 'no, "really"\nnot [bold]']
    assert rows[4][:6] == ["3", "running", "", "a,b", "false", ""]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT.*\+00:00", rows[1][11])
    call("export", "--storage", "odd.db", "--output", "trials.csv")
    assert Path("trials.csv").read_bytes().decode() == text
    assert "cannot write" in flat(call("export", "--storage", "odd.db", "--output", "no/such/folder", code=2).stderr)


def test_export_as_json():
    study = odd_study()
    data = json.loads(call("export", "--format", "json", "--storage", "sqlite:///odd.db").stdout)
    assert (data["name"], data["direction"], data["seed"]) == ("[red]odd", "maximize", 1)
    assert presage.Space.from_json(data["space"]) == presage.Space(dict(study.space))
    assert data["trials"] == json.loads(json.dumps([trial.to_json() for trial in study.trials]))


def test_list_and_show():
    odd_study()
    presage.Study(presage.Space({"x": presage.Float(0, 1)}), storage="odd.db", name="empty")
    env = {"PRESAGE_STORAGE": "odd.db"}
    listed = call("list", env=env).stdout
    assert re.search(r"\[red\]odd +maximize +4 +1 +0\.3 ", listed)
    assert re.search(r"empty +minimize +0 ", listed)
    facts = json.loads(call("list", "--json", env=env).stdout)
    assert [(f["name"], f["trials"], f["running"], f["best"]) for f in facts] == [
        ("[red]odd", 4, 1, 0.1 + 0.2), ("empty", 0, 0, None),
    ]  # fmt: skip
    shown = call("show", "[red]odd", env=env).stdout
    assert shown.startswith("[red]odd\n")
    assert "best value 0.30000000000000004 at trial 0" in shown
    assert "value=[red]é flag=[1, 2]" in shown
    assert "\x1b" not in shown
    assert 'trial 2: error: no, "really" not [bold]' in shown
    assert "depth=int:1:3 when flag is True" in shown
    facts = json.loads(call("show", "[red]odd", "--json", "--last", 2, env=env).stdout)
    assert (facts["best"]["value"], [t["number"] for t in facts["last"]]) == (0.1 + 0.2, [2, 3])
    assert len(json.loads(call("show", "[red]odd", "--json", "--last", 7, env=env).stdout)["last"]) == 4
    assert json.loads(call("show", "empty", "--json", env=env).stdout)["best"] is None
    call("show", "empty", env=env)


def test_what_does_not_exist():
    odd_study()
    assert "there is no study 'zz'; the storage odd.db has '[red]odd'" in flat(
        call("show", "zz", "-s", "odd.db", code=1).stderr
    )
    for command in ("list", "show", "export"):
        assert "set PRESAGE_STORAGE" in flat(call(command, code=2).stderr)
        for place in ("typo.db", "sqlite:///typo.db"):
            assert "there is no file typo.db" in flat(call(command, "--storage", place, code=1).stderr)
    assert not Path("typo.db").exists()
    presage.Study(presage.Space({"x": presage.Float(0, 1)}), storage="odd.db", name="second")
    assert "a study's name must be given" in flat(call("show", "-s", "odd.db", code=1).stderr)


@pytest.mark.parametrize("command", ["run", "demo", "list", "show", "export"])
def test_every_command_has_help_with_an_example(command):
    assert f"presage {command} " in call(command, "--help").stdout.partition("Example")[2]


# Real processes.
def test_help_is_quick_and_imports_nothing_heavy():
    heavy = "numpy scipy jax sqlalchemy equinox cloudpickle multiprocessing matplotlib starlette sklearn presage.space"
    code = f"""
import sys
from presage.cli import main
try:
    main()
finally:
    print([name for name in "{heavy}".split() if name in sys.modules], file=sys.stderr)
"""
    times = []
    for flag in ("--help", "--help", "--help", "--version"):
        before = os.times()
        done = subprocess.run([sys.executable, "-c", code, flag], capture_output=True, text=True, check=True)
        after = os.times()
        spent = after.children_user + after.children_system - before.children_user - before.children_system
        times.append(spent)
        assert done.stderr.strip() == "[]"
    assert done.stdout == f"presage {presage.__version__}\n"
    assert min(times[:3]) < 0.5  # seconds of the processor's time, whatever else runs on the machine


SLEEPER = """
import os, sys, time
open("pid" + os.environ["PRESAGE_TRIAL"], "w").write(str(os.getpid()))
time.sleep(float(sys.argv[2]))
print(sys.argv[1])
"""


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_a_consistent_study_and_no_process(number):
    """Two quick trials, then two that would sleep for a minute when the signal comes."""
    sleeper = [*PYTHON, SLEEPER, "{x}", "{s}"]
    space = ["-p", "x=float:0:1", "-p", "s=choice:0,60"]
    starts = [part for s in (0, 0, 60, 60) for part in ("--start", f"x=0.{len(str(s))}{s}5,s={s}")]
    arguments = ["run", *space, *starts, "--jobs", 2, "--trials", 4, "--storage", "study.db", *QUICK, "--", *sleeper]
    started = process(*arguments)
    wait_until(lambda: all(Path(f"pid{n}").exists() and Path(f"pid{n}").read_text() for n in (2, 3)))
    started.send_signal(number)
    _, err = finish(started, 128 + number)
    assert "Best so far" in err
    assert "To go on, run it again:\n  presage run -p x=float:0:1" in err
    assert "Traceback" not in err
    assert all(gone(Path(f"pid{n}").read_text()) for n in (2, 3))
    assert [t["state"] for t in trials_of()] == ["complete", "complete", "waiting", "waiting"]
    resumed = [*PYTHON, "print(0)", "{x}", "{s}"]
    finish(process(*arguments[: arguments.index("--") + 1], *resumed), 0)
    assert [(t["state"], t["attempt"]) for t in trials_of()] == [("complete", 1)] * 4


def test_a_pipe_that_is_closed_early():
    presage.Study(presage.Space({"x": presage.Float(0, 1)}), storage="s.db").tell_many(
        [{"x": 0.5}] * 5000, [1.0] * 5000
    )
    started = process("export", "--storage", "s.db")
    started.stdout.readline()
    started.stdout.close()
    assert "Traceback" not in started.stderr.read()
