"""The verb on the command line: exit codes, what is printed, and that a service which hangs does not keep it."""

import json
import shlex
import socket
import time

import pytest

from cli.doctor import command, examination
from cli.main import main


@pytest.fixture
def run(capsys, monkeypatch):
    """Runs the verb; returns its exit code and what it printed on standard output and standard error."""
    monkeypatch.setenv("TAG", "1")
    for name in ("KFP_ENDPOINT", "KUBERNETES_SERVICE_HOST", "KFP_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def run(line: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["doctor", *shlex.split(line)])
        shown = capsys.readouterr()
        return ended.value.code, shown.out, shown.err

    return run


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--gpu 3", "There is no option --gpu."),
        ("--gpus many", "gpus 'many' is no number of GPUs"),
        ("--tolerations no", "--tolerations"),
        ("--context nowhere", "There is no context 'nowhere' in the kubeconfig: use one of here, there."),
        ("extra", "Got unexpected extra argument (extra)"),
    ],
)
def test_a_wrong_command_line_is_one_sentence_and_exit_code_2(run, answering, line, words):
    answering(404, {})
    code, out, err = run(line)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_without_a_cluster(run, monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    code, out, err = run("")
    assert (code, out) == (2, "")
    assert err.startswith("No Kubernetes cluster is configured")


def test_an_empty_cluster_has_every_failure_with_its_remedy(run, answering):
    """The API server knows of nothing: each line says so, and none is a traceback."""
    sent = answering(404, {})
    code, out, err = run("--no-probe")
    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert all(line.startswith(("ok ", "warn ", "FAIL ", "skipped ")) for line in lines)
    for check in ("kfp", "namespace", "rbac", "secret store", "secret sandbox", "sandbox pods"):
        (line,) = [line for line in lines if line.split(maxsplit=1)[1].startswith(f"{check}:")]
        assert line.startswith("FAIL")
        assert " -> " in line
    assert {method for method, *_ in sent} <= {"GET", "POST"}
    made = [path for method, path, _ in sent if method == "POST"]
    assert all("dryRun=All" in path or "accessreviews" in path for path in made), "nothing is made without probes"


def test_as_json(run, answering):
    answering(404, {})
    code, out, _ = run("--no-probe --json")
    told = json.loads(out)
    assert code == 1
    assert told["ok"] is False
    assert {"check", "state", "seen", "mend"} == set(told["findings"][0])


def test_a_run_that_nobody_knows(run, answering):
    answering(404, {})
    code, out, _ = run("--run 0000")
    assert code == 1
    assert out.startswith("FAIL    run: nothing is known of a run 0000 -> ")
    assert out.count("\n") == 1


@pytest.mark.slow
def test_a_service_that_hangs_does_not_keep_the_doctor(run, answering, monkeypatch):
    answering(404, {})
    monkeypatch.setattr(examination, "SECONDS", 2.0)
    monkeypatch.setattr(command, "SECONDS_FOR_KFP", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begun = time.monotonic()
        code, out, _ = run(f"--no-probe --endpoint http://127.0.0.1:{silent.getsockname()[1]}")
        assert time.monotonic() - begun < 15
    assert code == 1
    assert "FAIL    kfp: no answer within 2 s -> kubectl get pods -n kubeflow" in out
