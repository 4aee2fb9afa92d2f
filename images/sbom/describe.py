"""Print the bill of materials of the image that this runs in: CycloneDX 1.6 as JSON, Python packages and Debian's.

Runs inside the image, on top of which images/sbom/Dockerfile lays the tool; see `cli.images.describe`.
"""

import json
import platform
import subprocess
import sys
from typing import Any
from urllib.parse import quote

PACKAGES = "/sbom/packages"
FIELDS = "${binary:Package}\t${Version}\t${Architecture}\t${db:Status-Status}\n"


def python_packages() -> dict[str, Any]:
    """The document that the tool makes of this interpreter's environment, in which it is not installed itself."""
    tool = f"import runpy, sys; sys.path.insert(0, {PACKAGES!r}); runpy.run_module('cyclonedx_py', run_name='__main__')"
    options = ["environment", "--output-reproducible", "--sv", "1.6", sys.executable]
    printed = subprocess.run([sys.executable, "-c", tool, *options], stdout=subprocess.PIPE, text=True, check=True)
    document: dict[str, Any] = json.loads(printed.stdout)
    return document


def debian_packages() -> list[dict[str, Any]]:
    """What dpkg says is installed, as components."""
    release = platform.freedesktop_os_release()
    asked = subprocess.run(["dpkg-query", "-W", "-f", FIELDS], capture_output=True, text=True, check=True)
    rows = [line.split("\t") for line in asked.stdout.splitlines()]
    distribution = f"{release['ID']}-{release.get('VERSION_ID', '')}"
    components = []
    for package, version, architecture, status in rows:
        if status == "installed":
            name = package.split(":")[0]
            where = f"?arch={architecture}&distro={distribution}"
            purl = f"pkg:deb/{release['ID']}/{quote(name)}@{quote(version, safe='')}{where}"
            components.append({"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl})
    return components


def main() -> None:
    """Both kinds in one document, on standard output."""
    document = python_packages()
    document["components"] = document.get("components", []) + debian_packages()
    json.dump(document, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
