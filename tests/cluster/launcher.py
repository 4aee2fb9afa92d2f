"""What stands in for KFP's launcher: the program in front of a step's own, in the step's own container.

    python launcher.py --executor_input JSON --results s3://bucket/key -- COMMAND ARGUMENT…

Like the real one it fetches the input artifacts, puts the inputs into the step's command, runs it, and sends on what it
has left: artifacts to their addresses, output parameters and metadata to --results, which stands for KFP's own records.
A folder of a step's artifact is at /s3/bucket/key. --at-work: a FIFO that is open for writing as long as this process
lives, by which the container beside it knows. The text of this file is a pod's program, in any of the step images.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minio import Minio

SCHEME, LOCAL = "s3://", os.environ.get("STAND_IN_LOCAL", "/s3")
SECONDS_AFTER_SIGTERM = 0.1  # what the real one leaves the step, which has the signal by then, too
Object = dict[str, Any]


def connect() -> Minio:
    """The store, by the variables that the step has for itself."""
    secure = os.environ.get("S3_SECURE", "true") == "true"
    keys = os.environ["S3_ACCESS_KEY"], os.environ["S3_SECRET_KEY"]
    return Minio(os.environ["S3_ENDPOINT"], *keys, secure=secure)


def place(uri: str) -> tuple[str, str]:
    bucket, _, key = uri.removeprefix(SCHEME).partition("/")
    return bucket, key


def local(uri: str) -> Path:
    return Path(LOCAL) / uri.removeprefix(SCHEME)


def artifacts_of(part: Object) -> Iterator[Object]:
    for each in part.get("artifacts", {}).values():
        yield from each["artifacts"]


def fetch(client: Minio, uri: str) -> None:
    """An artifact, which is an object or all that lie below its address."""
    bucket, key = place(uri)
    found = [each.object_name for each in client.list_objects(bucket, prefix=key, recursive=True)]
    for name in found:
        if name == key or name.startswith(key + "/"):
            client.fget_object(bucket, name, str(Path(LOCAL) / bucket / name))


def send(client: Minio, uri: str) -> None:
    """Likewise; an output that the step has not written is only warned about.

    Inside a folder everything but a folder is opened and read, so that OSError is raised at a link to one.
    """
    (bucket, key), source = place(uri), local(uri)
    if not source.exists():
        print(f"launcher: {source} does not exist", flush=True)
    inside = sorted(path for path in source.rglob("*") if path.is_symlink() or not path.is_dir())
    for file in [source] if source.is_file() else inside:
        name = key if file == source else f"{key}/{file.relative_to(source).as_posix()}"
        client.fput_object(bucket, name, str(file))


def filled(word: str, given: Object) -> str:
    """A word of the command with its placeholders replaced."""
    word = word.replace("{{$}}", json.dumps(given))
    for name, value in given["inputs"]["parameterValues"].items():
        text = value if isinstance(value, str) else json.dumps(value)
        word = word.replace("{{$.inputs.parameters['" + name + "']}}", text)
    return word


def run(command: list[str]) -> int:
    """The command's exit code, 128 and more for a signal that killed it."""
    child = subprocess.Popen(command)

    def pass_on(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(os.getpgrp(), signal.SIGTERM)
        time.sleep(SECONDS_AFTER_SIGTERM)
        os._exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, pass_on)
    code = child.wait()
    return 128 - code if code < 0 else code


def produced(given: Object) -> Object:
    """What the step says of its outputs, over what was expected of them."""
    outputs = given["outputs"]
    file = Path(outputs["outputFile"])
    told: Object = json.loads(file.read_text()) if file.exists() else {}
    whole = {"parameterValues": told.get("parameterValues", {}), "artifacts": outputs["artifacts"]}
    for name, one in told.get("artifacts", {}).items():
        whole["artifacts"][name]["artifacts"][0]["metadata"] |= one["artifacts"][0].get("metadata", {})
    for name, one in outputs["parameters"].items():
        if name not in whole["parameterValues"]:
            whole["parameterValues"][name] = Path(one["outputFile"]).read_text()
    return whole


def main(arguments: list[str]) -> int:
    """Run a step; 0 when it has succeeded and everything has arrived, else 1, as of the real one."""
    end = arguments.index("--")
    parser = argparse.ArgumentParser()
    parser.add_argument("--executor_input", required=True, type=json.loads)
    parser.add_argument("--results", required=True)
    parser.add_argument("--at-work", default="")
    options = parser.parse_args(arguments[:end])
    if options.at_work:
        os.open(options.at_work, os.O_WRONLY)  # waits for its reader, and is closed by the end of this process
    given, client = options.executor_input, connect()
    for one in artifacts_of(given["inputs"]):
        fetch(client, one["uri"])
    for one in artifacts_of(given["outputs"]):
        local(one["uri"]).parent.mkdir(parents=True, exist_ok=True)
    Path(given["outputs"]["outputFile"]).parent.mkdir(parents=True, exist_ok=True)
    for one in given["outputs"]["parameters"].values():
        Path(one["outputFile"]).parent.mkdir(parents=True, exist_ok=True)
    code = run([filled(word, given) for word in arguments[end + 1 :]])
    if code:
        print(f"launcher: failed to execute component: exit status {code}", file=sys.stderr, flush=True)
        return 1
    whole = produced(given)
    try:
        for one in artifacts_of(whole):
            send(client, one["uri"])
    except OSError as error:
        print(f"launcher: failed to upload: {error}", file=sys.stderr, flush=True)
        return 1
    local(options.results).parent.mkdir(parents=True, exist_ok=True)
    local(options.results).write_text(json.dumps(whole))
    send(client, options.results)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
