"""The dashboard's answers: what it tells, whom it obeys, and what it refuses."""

import csv
import http.client
import io
import json
import socket
import threading
import time
from contextlib import contextmanager

import pytest

import presage
from presage import Choice, Float, Int, Space, Study
from presage.dashboard import is_loopback, serve
from presage.dashboard.followed import Followed
from presage.errors import StudyError
from presage.storage import MemoryStorage

pytest.importorskip("uvicorn")
from presage.dashboard.app import HEADERS, create_app

SPACE = {"x": Float(0, 1), "n": Int(1, 3), "c": Choice(["a", "b"], when={"n": [2, 3]})}
GOOD = {"Content-Type": "application/json", "X-Presage": "1"}


@contextmanager
def serving(storage, *, token=None, host="127.0.0.1"):
    """The application on a free port, in a thread; its port."""
    import uvicorn

    app = create_app(storage, token=token, loopback=is_loopback(host))
    listening = socket.create_server((host, 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + 20
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(20)
        listening.close()


def ask(port, path, *, method="GET", body=None, headers=None, host="127.0.0.1"):
    connection = http.client.HTTPConnection(host, port, timeout=30)
    connection.request(method, path, body=None if body is None else json.dumps(body), headers=headers or {})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text, {key.lower(): value for key, value in answer.getheaders()}


def test_a_file_that_the_browser_has_is_not_sent_again():
    with serving(MemoryStorage()) as port:
        status, text, headers = ask(port, "/static/app.js")
        assert status == 200
        assert "EventSource" in text
        again = ask(port, "/static/app.js", headers={"If-None-Match": headers["etag"]})
        assert (again[0], again[1]) == (304, "")
        assert {key.lower() for key in HEADERS} <= again[2].keys()
        assert ask(port, "/static/app.js", headers={"If-None-Match": '"older"'})[0] == 200


def told(port, path):
    status, text, _ = ask(port, path)
    assert status == 200, text
    return json.loads(text)


@pytest.fixture(scope="module")
def study():
    made = Study(Space(SPACE), storage=MemoryStorage(), name="s", seed=0, initial=4)
    for i in range(12):
        trial = made.ask()
        trial.report(1, 0.5)
        if i == 3:
            made.tell(trial, failed="out of <memory>")
        else:
            made.tell(trial, trial.params["x"] ** 2 + trial.params["n"])
    return made


@pytest.fixture(scope="module")
def port(study):
    with serving(study.storage) as number:
        yield number


READS = [
    "studies", "study?name=s", "trials?name=s", "trial?name=s&number=3", "slice?name=s&param=x", "importance?name=s",
    "advice?name=s", "curves?name=s", "workers?name=s", "csv?name=s",
]  # fmt: skip
CHANGES = ["control", "note", "add"]


def test_it_tells_what_the_study_knows(study, port):
    (listed,) = told(port, "/api/studies")
    assert (listed["name"], listed["trials"], listed["failed"], listed["best"]) == ("s", 12, 1, study.best.value)
    facts = told(port, "/api/study?name=s")
    assert [axis["name"] for axis in facts["space"]] == ["x", "n", "c"]
    assert facts["space"][2]["when"] == {"n": [2, 3]}
    rows = told(port, "/api/trials?name=s")
    assert rows["total"] == 12
    for row, trial in zip(rows["rows"], study.trials, strict=True):
        assert row[:4] == [trial.number, trial.state, trial.value, trial.source]
        assert row[7] == [trial.params.get(name) for name in SPACE]
    assert told(port, f"/api/trials?name=s&since={rows['seq']}")["rows"] == []
    detail = told(port, "/api/trial?name=s&number=3")
    assert detail["failure"]["message"] == "out of <memory>"
    assert len(told(port, "/api/curves?name=s")["curves"]) == 12
    (worker,) = told(port, "/api/workers?name=s")["workers"]
    assert (worker["done"], worker["failed"]) == (11, 1)


def test_curves_under_way_are_foretold(monkeypatch):
    monkeypatch.setattr("presage.preview.EVERY", 0.0)
    made = Study({"x": Float(0, 1)}, storage=MemoryStorage(), name="s", seed=0, surrogate="random")
    for number in range(7):
        trial = made.ask()
        for step in range(1, 21 if number < 6 else 8):
            trial.report(step, trial.params["x"] + 1.0 / step)
        if number < 6:
            made.tell(trial, trial.params["x"] + 0.05)
    with serving(made.storage) as port:
        curves = told(port, "/api/curves?name=s")["curves"]
    assert [curve["ahead"] is not None for curve in curves] == [False] * 6 + [True]
    ahead, x = curves[-1]["ahead"], trial.params["x"]
    assert (ahead["steps"][0], ahead["steps"][-1]) == (7, 20)
    assert ahead["low"][-1] <= x + 0.05 <= ahead["high"][-1]


def test_the_model_is_the_study_s(study, port):
    cut = told(port, "/api/slice?name=s&param=x")
    at = study.best.params
    for value, mean in list(zip(cut["values"], cut["mean"], strict=True))[::20]:
        assert mean == pytest.approx(study.predict({**at, "x": value}).mean, rel=1e-6)
    # Sliders may stand where a conditional dimension does not exist.
    moved = told(port, '/api/slice?name=s&param=x&at={"x":0.5,"n":1,"c":"b"}')
    assert moved["at"] == {"x": 0.5, "n": 1}
    shares = told(port, "/api/importance?name=s")
    assert {row["name"] for row in shares} == {"x", "n", "c"}
    outlook = told(port, "/api/advice?name=s")
    assert 0.0 <= outlook["remaining"]["probability"] <= 1.0
    assert isinstance(outlook["advice"], list)


def test_csv_is_the_export(study, port):
    status, text, headers = ask(port, "/api/csv?name=s")
    assert status == 200
    assert headers["content-disposition"].startswith('attachment; filename="s.csv"')
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["value"] for row in rows if row["value"]] == [str(t.value) for t in study.trials if t.values]


def test_every_answer_has_the_headers_that_keep_strangers_out(port):
    for path in [
        "/",
        "/login",
        "/static/app.js",
        "/static/plotly-basic.min.js",
        "/nowhere",
        *(f"/api/{read}" for read in READS),
    ]:
        headers = ask(port, path)[2]
        for name, value in HEADERS.items():
            assert headers.get(name.lower()) == value, (path, name)
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy


@pytest.mark.parametrize(
    "path", ["/static/../app.py", "/static/%2e%2e%2fapp.py", "/static/index.html", "/static/login.html"]
)
def test_only_listed_files_are_served(port, path):
    assert ask(port, path)[0] == 404


def test_nothing_changes_by_get_and_nothing_from_elsewhere(study, port):
    before = len(study.storage.read("s"))
    for change in CHANGES:
        for method in ("GET", "HEAD"):
            assert ask(port, f"/api/{change}?name=s&action=stop&text=x", method=method)[0] == 405
        body = {"name": "s", "action": "stop", "text": "x", "params": {"x": 0.5, "n": 1}}
        own = {"Origin": f"http://127.0.0.1:{port}"}
        for headers in (
            {},
            {"Content-Type": "application/json"},
            {"Content-Type": "text/plain", "X-Presage": "1"},
            {"Content-Type": "application/x-www-form-urlencoded", "X-Presage": "1"},
            {**GOOD, "Origin": "http://evil.example"},
            {**GOOD, "Origin": "null"},
            {**GOOD, **own, "Sec-Fetch-Site": "cross-site"},
            {**GOOD, **own, "Sec-Fetch-Site": "same-site"},
        ):
            assert ask(port, f"/api/{change}", method="POST", body=body, headers=headers)[0] == 403, headers
    for read in READS:
        assert ask(port, f"/api/{read}", method="POST", body={"name": "s"}, headers=GOOD)[0] == 405
    assert len(study.storage.read("s")) == before


def test_a_name_that_points_here_from_elsewhere_is_refused(port):
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", ""):
        assert ask(port, "/api/studies", headers={"Host": host})[0] == 400
    for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}"):
        assert ask(port, "/api/studies", headers={"Host": host})[0] == 200


def test_people_pause_note_and_add():
    study = Study(Space(SPACE), storage=MemoryStorage(), name="t", seed=0)
    with serving(study.storage) as port:

        def send(path, **body):
            status, text, _ = ask(port, f"/api/{path}", method="POST", body={"name": "t", **body}, headers=GOOD)
            return status, json.loads(text)

        assert send("control", action="pause")[0] == 200
        study._sync()
        assert study._history.paused
        assert told(port, "/api/study?name=t")["paused"]
        assert send("control", action="resume")[0] == 200
        assert send("note", text=" <b>hm</b> ")[0] == 200
        assert study.notes[0]["text"] == "<b>hm</b>"
        assert send("add", params={"x": 0.25, "n": 2, "c": "b"})[1]["result"] == 0
        assert study.ask().params == {"x": 0.25, "n": 2, "c": "b"}
        assert send("add", params={"x": 0.5, "n": 1}, value=1.5)[1]["result"] == 1
        assert study.trials[1].value == 1.5
        for path, body, says in (
            ("add", {"params": {"x": 7, "n": 1}}, "<= 1.0 must hold"),
            ("add", {"params": {"x": 0.5, "n": 1}, "value": "much"}, "one finite number"),
            ("add", {"params": {"x": 0.5, "n": 1, "c": "a"}}, "exists only when"),
            ("control", {"action": "explode"}, "pause, resume or stop"),
            ("note", {"text": "  "}, "a text of 1 to"),
            ("note", {"text": "x" * 5000}, "a text of 1 to"),
            ("note", {"text": "x", "number": 99}, "trial numbers go"),
        ):  # fmt: skip
            status, answer = send(path, **body)
            assert status == 400
            assert says in answer["error"]
        huge = ask(port, "/api/note", method="POST", body={"name": "t", "text": "x" * 200_000}, headers=GOOD)
        assert huge[0] == 400
        assert ask(port, "/api/note", method="POST", headers={**GOOD, "Content-Length": "1"}, body=1)[0] == 400
        assert ask(port, "/api/study?name=nothing")[0] == 400
        assert ask(port, "/api/trial?name=t&number=-1")[0] == 400
        assert ask(port, "/api/slice?name=t&param=x")[0] == 400  # one value is too few for a model


def test_a_hand_made_trial_yields_to_a_worker_that_took_its_number(monkeypatch):
    study = Study(Space(SPACE), storage=MemoryStorage(), name="t", seed=0)
    followed = Followed(study.storage, "t")
    followed.sync()
    sync = followed.sync

    def late():
        seen = sync()
        if len(study.trials) == 0:
            study.ask()  # between the look and the claim
        return seen

    monkeypatch.setattr(followed, "sync", late)
    assert followed.add({"x": 0.5, "n": 1}) == 1
    assert [t.state for t in study.trials] == ["running", "waiting"]


def test_changes_are_streamed():
    study = Study(Space(SPACE), storage=MemoryStorage(), name="t", seed=0)
    with serving(study.storage) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("GET", "/api/events")
        stream = connection.getresponse()
        assert stream.getheader("content-type").startswith("text/event-stream")

        def next_seqs():
            while not (line := stream.readline()).startswith(b"data:"):
                assert line, "the stream has ended"
            return json.loads(line[5:])["seqs"]

        assert next_seqs() == {"t": 1}
        study.tell(study.ask(), 1.0)
        deadline = time.monotonic() + 10
        while (seqs := next_seqs()) != {"t": 3}:
            assert time.monotonic() < deadline, seqs
        Study(Space(SPACE), storage=study.storage, name="another")
        assert "another" in next_seqs()
        connection.close()


# Beyond this machine.
def test_a_dashboard_that_others_can_reach_needs_a_token(study):
    with pytest.raises(StudyError, match="needs a token"):
        create_app(study.storage, loopback=False)
    with pytest.raises(StudyError, match="needs a token"):
        serve(study.storage, host="0.0.0.0", port=0)


def test_without_the_token_nothing_is_told(study):
    with serving(study.storage, token="open sesame", host="0.0.0.0") as port:
        for path in (*(f"/api/{read}" for read in READS), "/api/events", "/static/app.js", "/static/views.js"):
            status, text, _ = ask(port, path)
            assert (status, text) == (401, "A token is needed."), path
        for change in CHANGES:
            assert ask(port, f"/api/{change}", method="POST", body={"name": "s"}, headers=GOOD)[0] == 401
        status, _, headers = ask(port, "/")
        assert (status, headers["location"]) == (303, "/login")
        for wrong in ("", "open", "open sesame ", None, ["open sesame"]):
            assert ask(port, "/login", method="POST", body={"token": wrong}, headers=GOOD)[0] == 403
        assert ask(port, "/login", method="POST", body={"token": "open sesame"})[0] == 403  # not from our page
        for header in ("Bearer wrong", "open sesame", "Basic open sesame"):
            assert ask(port, "/api/studies", headers={"Authorization": header})[0] == 401
        assert ask(port, "/api/studies", headers={"Cookie": "presage-session=open sesame"})[0] == 401
        assert ask(port, "/api/studies", headers={"Authorization": "Bearer open sesame"})[0] == 200
        status, _, headers = ask(port, "/login", method="POST", body={"token": "open sesame"}, headers=GOOD)
        assert status == 200
        cookie = headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert "sesame" not in cookie
        pair = headers["set-cookie"].partition(";")[0]
        assert ask(port, "/api/studies", headers={"Cookie": pair})[0] == 200
        assert ask(port, "/", headers={"Cookie": pair})[0] == 200


def test_a_taken_port_is_said(study):
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(StudyError, match="give another --port"):
        serve(study.storage, port=taken.getsockname()[1])


def test_a_space_that_changes_is_followed():
    study = Study(Space({"x": Float(0, 1)}), storage=MemoryStorage(), name="t", seed=0)
    study.tell(study.ask(), 1.0)
    followed = Followed(study.storage, "t")
    followed.sync()
    study.update_space(Space({"x": Float(0, 2), "y": Float(0, 1, default=0.5)}))
    followed.sync()
    assert followed.trials()["names"] == ["x", "y"]
    assert followed.trials()["rows"][0][7] == [study.trials[0].params["x"], None]  # it was tried without y


def test_presage_runs_without_the_extra(monkeypatch):
    import builtins

    real = builtins.__import__

    def missing(name, *args, **kwargs):
        if name == "uvicorn":
            raise ModuleNotFoundError("no uvicorn", name="uvicorn")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(StudyError, match=r"pip install 'presage\[dashboard\]'"):
        serve(presage.storage.open_storage(None), port=0)
