"""An image's digest, asked from its registry over the registry API (OCI distribution, `HEAD manifests`)."""

import os
import re

import urllib3

from cli.registry_login import HUB, authorization
from components.shared.errors import InfraError, UserError

# Index and manifest, in OCI's and in Docker's form: whatever the tag names, its own digest is the answer.
ACCEPT = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
TIMEOUT = urllib3.Timeout(connect=5.0, read=10.0)
HUB_API = "registry-1.docker.io"  # where Docker Hub's images are asked for
PLAIN_HTTP = "REGISTRY_PLAIN_HTTP"  # "true" for a registry without TLS that is not on this machine


class NoDigest(InfraError):
    """The registry does not say the image's digest; the text says why."""


def by_digest(image: str) -> str:
    """`registry/name:tag` as `registry/name@sha256:...`, which no later push can change.

    A registry that wants a token gets one, with the credentials of `docker login` where there are any. Raises UserError
    when the registry does not hold the image, NoDigest when it cannot be asked (no registry named, a login wanted, out
    of reach).
    """
    host, _, rest = image.partition("/")
    if not rest or not ("." in host or ":" in host or host == "localhost"):
        raise NoDigest(f"{image} names no registry")
    name, _, tag = rest.rpartition(":")
    scheme = "http" if _is_local(host) or os.environ.get(PLAIN_HTTP) == "true" else "https"
    url = f"{scheme}://{HUB_API if host == HUB else host}/v2/{name}/manifests/{tag}"
    try:
        answer = _head(url, host, name)
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise NoDigest(f"{host} does not answer ({type(error).__name__})") from None
    if answer.status == 404:
        raise UserError(
            f"The image {image} is not in its registry: `make images push REGISTRY={host} TAG={tag}` puts it there."
        )
    found = answer.headers.get("Docker-Content-Digest", "")
    if answer.status != 200 or not DIGEST.fullmatch(found):
        wants = "wants a login" if answer.status in (401, 403) else f"answers HTTP {answer.status}"
        raise NoDigest(f"{host} {wants}")
    return f"{host}/{name}@{found}"


def _head(url: str, host: str, name: str) -> urllib3.BaseHTTPResponse:
    """The registry's answer; a challenge is met once."""
    http = urllib3.PoolManager(retries=False, timeout=TIMEOUT)
    answer = http.request("HEAD", url, headers={"Accept": ACCEPT})
    if answer.status != 401:
        return answer
    for challenge in answer.headers.getlist("WWW-Authenticate"):
        allowed = authorization(http, challenge, host, f"repository:{name}:pull", plain=url.startswith("http://"))
        if allowed:
            return http.request("HEAD", url, headers={"Accept": ACCEPT, **allowed})
    return answer


def _is_local(host: str) -> bool:
    return host.split(":")[0] in ("localhost", "127.0.0.1")
