"""`models list|publish|rollback`: what a name means, how it changes by hand, and what is refused."""

import json
from functools import partial

import pytest

from cli import models
from components.shared import published
from components.shared.errors import InfraError
from components.shared.store import DirectoryStore, open_store
from tests.buckets import own_bucket
from tests.cli.past import ID_OF_KFP, evaluation_of, past_run

DECISION = {"name": "nightly", "published": False, "reason": "That is within noise."}


def trained_run(store, run_id, *, method="lora", **parameters):
    """A finished run with a small adapter."""
    past_run(store, run_id, evaluation=evaluation_of([0, 1] * 10, [3, 4] * 10), **parameters)
    facts = {"kind": "adapter", "method": method, "base": "some/base", "revision": "abc", "run": run_id, "steps": 3}
    store.write(f"runs/{run_id}/train/model.json", json.dumps(facts).encode())
    for name in ("adapter_config.json", "adapter_model.safetensors", "README.md"):
        store.write(f"runs/{run_id}/train/adapter/{name}", f"{name} of {run_id}".encode())
    store.write(f"runs/{run_id}/train/trained_on.json", b'{"complete": true, "marks": ["x"]}')
    store.write(f"runs/{run_id}/train/metrics.jsonl", b"{}\n")


@pytest.fixture(params=["directory", "bucket"])
def store(request, monkeypatch):
    """A store with two runs, in a directory and in a bucket."""
    if request.param == "bucket":
        with own_bucket(monkeypatch):
            yield filled(open_store())
    else:
        request.getfixturevalue("store_root")
        yield filled(open_store())


def filled(store):
    for run_id in ("one", "two"):
        trained_run(store, run_id)
    return store


@pytest.fixture
def models_verb(verb):
    return partial(verb, "models")


def test_what_is_published_by_hand_is_listed_and_taken_back(store, models_verb):
    assert "Nothing is published in" in models_verb("list")[1]
    code, said = models_verb("publish", "one", "nightly")
    assert (code, said.splitlines()[0]) == (0, "nightly is now version one.")
    assert "This was not decided on validation problems" in said
    store.write("runs/two/publish/decision.json", json.dumps(DECISION).encode())
    code, said = models_verb("publish", "two", "nightly")
    assert "nightly is now version two; it was one." in said
    assert "Its run had decided not to publish: That is within noise." in said
    folder = "models/nightly/two"
    assert store.read(f"{folder}/adapter/README.md") == b"README.md of two"
    assert not store.exists(f"{folder}/metrics.jsonl")
    assert json.loads(store.read(f"{folder}/provenance.json"))["run_id"] == "two"
    told = json.loads(store.read(f"{folder}/publication.json"))
    assert (told["replaces"], told["decided_by"], told["revision"]) == ("one", "hand", "abc")
    lines = models_verb("list")[1].splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["nightly", "one"], ["nightly", "two"]]
    assert ["current" in line for line in lines[1:]] == [False, True]
    assert "12.5\N{NO-BREAK SPACE}% → 87.5\N{NO-BREAK SPACE}%, 20 problems" in lines[1]

    assert models_verb("rollback", "nightly") == (0, "nightly is now version one; it was two.\n")
    assert store.read("models/nightly/current") == b"one\n"
    code, said = models_verb("rollback", "nightly")
    assert (code, "replaced none that is still there: name one; its versions are one, two." in said) == (2, True)
    assert models_verb("rollback", "nightly", "two") == (0, "nightly is now version two; it was one.\n")
    assert "is at version two already" in models_verb("rollback", "nightly", "two")[1]
    assert models_verb("publish", "one", "nightly")[0] == 0, "a version that is there is made current again"
    assert store.read("models/nightly/current") == b"one\n"


def test_an_id_of_kfp_is_whole_in_a_line_with_all_that_is_known(store_root, models_verb):
    trained_run(open_store(), ID_OF_KFP)
    assert models_verb("publish", ID_OF_KFP, "code-model-of-the-team")[0] == 0
    (_, line) = models_verb("list")[1].splitlines()
    assert line.split()[:3] == ["code-model-of-the-team", ID_OF_KFP, "current"]
    assert line.rstrip().endswith("20 problems")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["publish", "none", "nightly"], "Run none has no trained model"),
        (["publish", "one", "../x"], "NAME '../x' is no name for a model"),
        (["publish", "coin", "nightly"], "Run coin is a control"),
        (["rollback", "unknown"], "Nothing is published as unknown"),
        (["rollback", "known", "three"], "known has no version 'three': its versions are one."),
    ],
)
def test_mistakes_are_one_sentence(store_root, models_verb, arguments, words):
    store = filled(open_store())
    trained_run(store, "coin", reward="random")
    models_verb("publish", "one", "known")
    code, said = models_verb(*arguments)
    assert code == 2
    assert words in said
    assert "Traceback" not in said


def test_a_version_that_was_cut_short_is_none(store_root, models_verb):
    """The manifest comes last: a folder without one is neither listed nor gone back to, and is written again."""
    store = filled(open_store())
    models_verb("publish", "one", "nightly")
    store.write("models/nightly/two/adapter/adapter_config.json", b"half")
    assert [one["version"] for one in published.versions(store, "nightly")] == ["one"]
    assert models_verb("rollback", "nightly", "two")[0] == 2
    assert models_verb("publish", "two", "nightly")[0] == 0
    assert store.read("models/nightly/two/adapter/adapter_config.json") == b"adapter_config.json of two"


class Unconditional(DirectoryStore):
    """A store as some S3 servers are: it writes whatever the condition."""

    def swap(self, key, data, tag):
        self.write(key, data)
        return True


def test_a_store_that_ignores_conditions_is_warned_about(store_root, tmp_path, capsys):
    model = tmp_path / "model"
    model.mkdir()
    (model / "model.json").write_text("{}")
    how = {"decided_by": "hand", "facts": {}, "evaluation": None, "provenance": {}}
    for store, warned in ((open_store(), False), (Unconditional(tmp_path / "other"), True)):
        assert published.publish(store, "m", "v", model, seen=published.Pointer(None, None), **how)
        assert ("this store ignores conditional writes" in capsys.readouterr().out) == warned


def test_two_people_at_once_are_not_both_told_that_they_did_it(store_root, monkeypatch):
    """The other one publishes between this one's look at the pointer and its swap."""
    store = filled(open_store())
    fetch = models.fetch_trained

    def fetch_while_another_publishes(*arguments):
        monkeypatch.setattr(models, "fetch_trained", fetch)
        models._publish("two", "nightly")
        return fetch(*arguments)

    monkeypatch.setattr(models, "fetch_trained", fetch_while_another_publishes)
    with pytest.raises(InfraError, match="Somebody else changed which version of nightly is current"):
        models._publish("one", "nightly")
    assert published.current_version(store, "nightly") == "two"
    assert store.folders("models/nightly/") == ["two"]


class Forgetful(DirectoryStore):
    """A store whose answer to a swap was lost: the client sends it again, and the second one is refused."""

    def swap(self, key, data, tag):
        super().swap(key, data, tag)
        return super().swap(key, data, tag)


def test_a_lost_answer_is_no_lost_publication(store_root, tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    (model / "model.json").write_text("{}")
    store = Forgetful(tmp_path / "store")
    how = {"decided_by": "hand", "facts": {}, "evaluation": None, "provenance": {}}
    assert published.publish(store, "m", "v", model, seen=published.Pointer(None, None), **how)
    assert published.current_version(store, "m") == "v"
    assert published.publication(store, "m", "v") is not None, "the pointer names a version that is there"
