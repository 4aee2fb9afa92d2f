"""Bring the manifests to a cluster and take them away again, behind `make deploy undeploy`.

`python3 -m cli.deploy up|down|render`; only the standard library is imported and only kubectl and git are called.
Settings come from the environment: REGISTRY and TAG of the images, OVERLAY (a comma list of folders in
manifests/components, or empty for the base), NAMESPACE of the runs (KFP's by default; grpo-code is made, any other must
be there), MINIO_IMAGE. Secrets are made where they are missing and never changed; nothing secret is in a file.
"""

import argparse
import base64
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cli.images import ALL, REGISTRY, TAG, settle_registry, settle_tag, told
from cli.namespaces import (
    KFP_NAMESPACE,
    OWN_NAMESPACE,
    PIPELINE_LABEL,
    SANDBOX_NAMESPACE,
    STORE_NAMESPACE,
    named_namespace,
    pipeline_namespace,
)
from components.images import image
from components.shared.errors import UserError

ROOT = Path(__file__).resolve().parent.parent
MANIFESTS = ROOT / "manifests"
OURS = {"app.kubernetes.io/part-of": "grpo-code"}
SELECTOR = ",".join(f"{key}={value}" for key, value in OURS.items())
MANAGER = "grpo-code"
MINIO_IMAGE = "quay.io/minio/minio"  # as component minio names it
# On namespaces of others that `up` has labelled, so that `down` knows them; `kept` where they had the label before.
DEPLOYED_LABEL = "grpo-code/deployed"
NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")  # what Kubernetes calls a DNS label
CLUSTER_KINDS = "validatingadmissionpolicybinding,validatingadmissionpolicy,priorityclass,runtimeclass"
NAMESPACED_KINDS = "networkpolicy,rolebinding,role,serviceaccount,secret"
SECONDS_TO_ROLL_OUT, SECONDS_TO_END = 300, 300


def kubectl(*arguments: str, given: str | None = None, quiet: bool = False) -> str:
    """What kubectl prints; a failure ends this program with exit code 1 after kubectl's own words."""
    if not shutil.which("kubectl"):
        raise UserError("kubectl is not installed: it is what speaks to the cluster.")
    done = subprocess.run(["kubectl", *arguments], input=given, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    if done.returncode:
        print(f"kubectl {' '.join(arguments[:3])} failed; see the lines above.", file=sys.stderr)
        raise SystemExit(1)
    if not quiet:
        print(done.stdout, end="", flush=True)
    return done.stdout


def apply(objects: str) -> None:
    """Server-side, so that what others set of an object (the autoscaler, its replicas) stays theirs."""
    kubectl("apply", "--server-side", "--force-conflicts", f"--field-manager={MANAGER}", "-f", "-", given=objects)


def components() -> list[str]:
    """The folders in OVERLAY. Raises UserError for one that does not exist."""
    there = sorted(path.name for path in (MANIFESTS / "components").iterdir() if path.is_dir())
    asked = [name.strip() for name in os.environ.get("OVERLAY", "").split(",") if name.strip()]
    for name in asked:
        if name not in there:
            raise UserError(
                f"There is no overlay {name!r}: use one or more of {', '.join(there)}, with commas between."
            )
    return asked


def target_namespace() -> str:
    """NAMESPACE, where runs live, or what the verbs would take. Raises UserError for what cannot be one's name.

    A profile's has to be named: KFP's own namespace runs nothing where there are profiles.
    """
    asked = os.environ.get("NAMESPACE", "")
    if not named_namespace(asked) and "kubeflow-multiuser" in components():
        raise UserError(
            "NAMESPACE is not set: with kubeflow-multiuser it is the profile's, for example NAMESPACE=team-a."
        )
    namespace = pipeline_namespace(asked)
    if not NAMESPACE.fullmatch(namespace):
        raise UserError(
            f"NAMESPACE {namespace!r} is no namespace: small letters, digits and '-' between them, at most 63."
        )
    return namespace


def minio_image() -> tuple[str, str] | None:
    """MINIO_IMAGE as (name, tag), None where it is not set. Raises UserError for one without a version."""
    asked = os.environ.get("MINIO_IMAGE", "")
    if not asked:
        return None
    name, colon, version = asked.rpartition(":")
    if not (colon and REGISTRY.fullmatch(name) and TAG.fullmatch(version)):
        raise UserError(
            f"MINIO_IMAGE {asked!r} is no image with a tag: for example MINIO_IMAGE={MINIO_IMAGE}:RELEASE.2025-09-07."
        )
    if version == "latest":
        raise UserError("MINIO_IMAGE with the tag latest may be another image tomorrow: name a release.")
    return name, version


def render() -> str:
    """All objects as YAML, with images, overlay and namespace as asked for."""
    tag, namespace = settle_tag(), target_namespace()
    settle_registry()
    resources = ["sandbox", "pipeline", *(["namespace"] if namespace == OWN_NAMESPACE else [])]
    pictures = [_picture(f"grpo-code-{name}", image(name).removesuffix(f":{tag}"), tag) for name in ALL]
    minio = minio_image()
    if minio:
        pictures.append(_picture(MINIO_IMAGE, *minio))
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [f"../../manifests/base/{name}" for name in resources],
        "components": [f"../../manifests/components/{name}" for name in components()],
        "images": pictures,
    }
    (ROOT / "build").mkdir(exist_ok=True)
    # a folder of its own, for two may be at it at the same time; below the root, for kustomize takes no absolute paths
    with tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="deploy-") as folder:
        Path(folder, "kustomization.yaml").write_text(json.dumps(kustomization, indent=1))  # JSON is YAML
        text = kubectl("kustomize", folder, quiet=True)
    return re.sub(rf"(?m)^( *)namespace: {OWN_NAMESPACE}$", rf"\1namespace: {namespace}", text)


def _picture(name: str, new_name: str, tag: str) -> dict[str, str]:
    return {"name": name, "newName": new_name, "newTag": tag}


def up() -> None:
    """Deploy, and wait until the sandbox judges."""
    objects, namespace, overlay = render(), target_namespace(), components()
    if not os.environ.get("REGISTRY"):
        print("REGISTRY is not set: the nodes must hold the images already, as after `kind load docker-image`.")
    _must_exist(namespace)
    apply(_namespaces_of(objects))
    if namespace != OWN_NAMESPACE:
        before = _namespaces_with(f"{PIPELINE_LABEL}=true,{DEPLOYED_LABEL}!=true")
        mark = f"{DEPLOYED_LABEL}={'kept' if namespace in before else 'true'}"
        kubectl("label", "--overwrite", "namespace", namespace, f"{PIPELINE_LABEL}=true", mark)
    _share_token(namespace)
    _settle_store(namespace, overlay)
    if "minio" in overlay:
        kubectl("-n", STORE_NAMESPACE, "delete", "job", "make-bucket", "--ignore-not-found")
    apply(objects)
    patience = f"--timeout={SECONDS_TO_ROLL_OUT}s"
    if "minio" in overlay:
        kubectl("-n", STORE_NAMESPACE, "wait", "--for=condition=complete", "job/make-bucket", patience)
    try:
        kubectl("-n", SANDBOX_NAMESPACE, "rollout", "status", "deployment/sandbox", patience)
    except SystemExit:
        kubectl("-n", SANDBOX_NAMESPACE, "get", "pods")
        events = ("get", "events", "--field-selector=type=Warning", "--sort-by=.lastTimestamp")
        kubectl("-n", SANDBOX_NAMESPACE, *events)
        raise


def _must_exist(namespace: str) -> None:
    """Raises UserError, before anything is made, where others have not made the namespace of the runs."""
    if namespace == OWN_NAMESPACE or kubectl("get", "namespace", namespace, "--ignore-not-found", quiet=True).strip():
        return
    raise UserError(
        f"There is no namespace {namespace}: install Kubeflow Pipelines or make the profile first, or name another, "
        f"NAMESPACE=… ({OWN_NAMESPACE} is made)."
    )


def _namespaces_of(objects: str) -> str:
    """Those of the rendered objects that are namespaces: Secrets need them before the rest is applied."""
    return "\n---\n".join(part for part in objects.split("\n---\n") if re.search(r"(?m)^kind: Namespace$", part))


def read_secret(namespace: str, name: str) -> dict[str, str] | None:
    """A Secret's values, None when it does not exist."""
    text = kubectl("-n", namespace, "get", "secret", name, "--ignore-not-found", "-o", "json", quiet=True)
    data: dict[str, str] | None = json.loads(text).get("data") or {} if text.strip() else None
    return None if data is None else {key: base64.b64decode(value).decode() for key, value in data.items()}


def create_secret(namespace: str, name: str, values: Mapping[str, str]) -> None:
    """Make a Secret; its values go through standard input, never the command line."""
    metadata = {"name": name, "namespace": namespace, "labels": OURS}
    secret: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": dict(values)}
    kubectl("create", "-f", "-", given=json.dumps(secret))


def _share_token(namespace: str) -> None:
    """The same token on both sides, random where there is none yet. Raises UserError when the two sides differ."""
    name, places = "grpo-code-sandbox", (SANDBOX_NAMESPACE, namespace)
    found = {place: read_secret(place, name) for place in places}
    tokens = {values.get("TOKEN", "") for values in found.values() if values is not None}
    if len(tokens) > 1:
        raise UserError(
            f"Secret {name} holds different tokens in {places[0]} and {places[1]}: "
            "delete it in one of them and deploy again."
        )
    token = tokens.pop() if tokens else secrets.token_urlsafe(32)
    for place, values in found.items():
        if values is None:
            create_secret(place, name, {"TOKEN": token})


def _settle_minio(existing: Mapping[str, str] | None, address: Mapping[str, str]) -> dict[str, str]:
    """MinIO's credentials: those it has, else those that an existing Secret of the runs has for it, else new ones."""
    credentials = read_secret(STORE_NAMESPACE, "minio")
    if credentials is not None:
        return credentials
    keys = {"S3_ACCESS_KEY": secrets.token_hex(10), "S3_SECRET_KEY": secrets.token_urlsafe(32)}
    if existing is not None and existing.get("S3_ENDPOINT") == address["S3_ENDPOINT"]:
        keys = {key: existing[key] for key in keys}
    credentials = {**keys, "GRPO_STORE": "s3://grpo-code"}
    create_secret(STORE_NAMESPACE, "minio", credentials)
    return credentials


def _settle_store(namespace: str, overlay: list[str]) -> None:
    """The Secret that leads steps to their store, made for a store of the overlay's where there is none yet."""
    name, existing = "grpo-code-store", read_secret(namespace, "grpo-code-store")
    address = {"S3_ENDPOINT": f"minio.{STORE_NAMESPACE}:9000", "S3_SECURE": "false"}
    credentials = _settle_minio(existing, address) if "minio" in overlay else None
    if existing is not None:
        return
    if credentials is not None:
        create_secret(namespace, name, {**credentials, **address})
    elif "seaweedfs" in overlay:
        address |= {"S3_ENDPOINT": f"seaweedfs.{KFP_NAMESPACE}:9000"}
        create_secret(namespace, name, {**_seaweedfs(namespace, "kubeflow-multiuser" in overlay), **address})
    else:
        print(
            f"Secret {name} is not in namespace {namespace}, and runs need it: "
            f"kubectl -n {namespace} create secret generic {name} --from-literal=S3_ENDPOINT=… "
            "--from-literal=S3_ACCESS_KEY=… --from-literal=S3_SECRET_KEY=… --from-literal=S3_SECURE=true"
        )


def _seaweedfs(namespace: str, profile: bool) -> dict[str, str]:
    """Keys for KFP's own store, and a place in it: in a profile the profile's, as KFP's open the artifacts of all.

    A profile's keys open private/ and private-artifacts/ of it; KFP can be told to delete the second after some days.
    """
    owner, name = namespace if profile else KFP_NAMESPACE, "mlpipeline-minio-artifact"
    found = read_secret(owner, name) or {}
    keys = {"S3_ACCESS_KEY": found.get("accesskey", ""), "S3_SECRET_KEY": found.get("secretkey", "")}
    if not all(keys.values()):
        first = "name a profile's namespace, where Kubeflow makes it" if profile else "install Kubeflow Pipelines first"
        raise UserError(f"Namespace {owner} has no Secret {name}: {first}.")
    return {**keys, "GRPO_STORE": f"s3://mlpipeline/{f'private/{namespace}/' if profile else ''}grpo-code"}


def down() -> None:
    """Delete our namespaces with all that is in them (a store of component minio, too), and what is ours elsewhere."""
    patience = f"--timeout={SECONDS_TO_END}s"
    own = (OWN_NAMESPACE, SANDBOX_NAMESPACE, STORE_NAMESPACE)
    others, kept = _namespaces_with(DEPLOYED_LABEL) - set(own), _namespaces_with(f"{DEPLOYED_LABEL}=kept")
    for name in sorted(others | {KFP_NAMESPACE}):
        kubectl("-n", name, "delete", NAMESPACED_KINDS, "-l", SELECTOR, "--ignore-not-found", patience)
    for name in sorted(others & _namespaces_with(DEPLOYED_LABEL)):  # asked again: others delete theirs meanwhile
        gone = [f"{DEPLOYED_LABEL}-", *([] if name in kept else [f"{PIPELINE_LABEL}-"])]
        kubectl("label", "namespace", name, *gone)
    kubectl("delete", "namespace", *own, "--ignore-not-found", patience)
    kubectl("delete", CLUSTER_KINDS, "-l", SELECTOR, "--ignore-not-found", patience)


def _namespaces_with(labels: str) -> set[str]:
    """The namespaces that a label selector selects, but those being deleted: with them goes what is in them."""
    there = "--field-selector=status.phase=Active"
    found = kubectl("get", "namespace", "-l", labels, there, "-o", "name", quiet=True).split()
    return {name.removeprefix("namespace/") for name in found}


def show() -> None:
    """Print what `up` would apply."""
    print(render(), end="")


VERBS: dict[str, Callable[[], None]] = {"up": up, "down": down, "render": show}


def main(arguments: list[str]) -> None:
    """up deploys, down takes everything away, render prints what up would apply."""
    parser = argparse.ArgumentParser(prog="python3 -m cli.deploy", description="Deploy the sandbox and what runs need.")
    parser.add_argument("verb", choices=VERBS)
    verb = VERBS[parser.parse_args(arguments).verb]
    with told():
        verb()


if __name__ == "__main__":
    main(sys.argv[1:])
