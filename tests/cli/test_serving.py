"""`report`: a run's pages for this machine's browser, from any store, and nothing else of the store."""

import threading

import click
import pytest
import urllib3

from cli.serving import serving
from cli.watching import report_command
from components.shared.errors import UserError
from components.shared.store import open_store


@pytest.fixture
def run(tmp_path):
    store = open_store(str(tmp_path / "store"))
    store.write("runs/r1/train/report.html", b"<p>training</p>")
    store.write("runs/r1/train/metrics.jsonl", b'{"step": 1}\n')
    store.write("runs/other/train/report.html", b"secret")
    return store


@pytest.fixture
def get(run):
    with serving(run, "r1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()

        def ask(path, **headers):
            url = f"http://127.0.0.1:{server.server_port}{path}"
            return urllib3.PoolManager(retries=False).request("GET", url, headers=headers)

        yield ask
        server.shutdown()
        thread.join()


def test_the_list_of_pages_reloads_itself_until_the_run_has_ended(get, run):
    page = get("/").data.decode()
    assert '<a href="train/report.html">' in page
    assert "Evaluation: did it learn, by how much, how sure: not yet" in page
    assert 'http-equiv="refresh"' in page
    run.write("runs/r1/status.html", b"<p>done</p>")
    assert 'http-equiv="refresh"' not in get("/").data.decode()


def test_files_come_as_what_they_are(get):
    page = get("/train/report.html")
    assert (page.data, page.headers["Content-Type"]) == (b"<p>training</p>", "text/html; charset=utf-8")
    assert get("/train/metrics.jsonl").headers["Content-Type"].startswith("text/plain")
    assert page.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("path", ["/nothing.html", "/../other/train/report.html", "/%2e%2e/other/train/report.html"])
def test_nothing_else_of_the_store_is_served(get, path):
    answer = get(path)
    assert answer.status == 404
    assert b"secret" not in answer.data


def test_a_page_of_another_name_may_not_read_it(get):
    assert get("/", Host="evil.example").status == 403


def test_a_run_that_left_nothing_and_a_port_that_is_taken(run):
    with pytest.raises(UserError, match="holds nothing of run r9"), serving(run, "r9", 0):
        pass
    with (
        serving(run, "r1", 0) as server,
        pytest.raises(UserError, match="cannot be used"),
        serving(run, "r1", server.server_port),
    ):
        pass


def test_a_stop_right_after_its_line_ends_it_well(run, monkeypatch):
    """As a terminal's Ctrl-C may come before the first request is waited for."""
    said = []

    def echo(line=""):
        said.append(line)
        if len(said) == 1:
            raise KeyboardInterrupt

    monkeypatch.setenv("GRPO_STORE", run.uri(""))
    monkeypatch.setattr(click, "echo", echo)
    assert report_command().main(["r1"], standalone_mode=False) == 0
    assert said[0].endswith("(Ctrl-C ends it)")
