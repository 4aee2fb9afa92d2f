"""The command line: `python -m sandbox` in the folder above this package.

Prints `sandbox: listening on http://HOST:PORT` on standard output once it answers (ready or not: see /readyz). Ends on
SIGTERM, SIGINT and, with --exit-with-parent, at the end of its standard input.
"""

import argparse
import asyncio
import contextlib
import json
import math
import os
import socket
import stat
import sys
import tempfile

import prometheus_client
import uvicorn

from sandbox import kernel, layers, logs
from sandbox.service import Configuration, Service, make_app
from sandbox.surroundings import parse_address
from sandbox.syscalls import NUMBERS
from sandbox.worker import Settings

SPARE_SECONDS = 5
LEAST_CAPACITY = 256


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """The options; exits with code 2 and a sentence for what cannot be."""
    parser = argparse.ArgumentParser(prog="sandbox", description="Judge untrusted Python programs by their tests.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument("--port", type=int, default=8080, help="port, 0 for a free one (%(default)s)")
    parser.add_argument("--metrics-port", type=int, default=0, help="port of /metrics, 0 for none (%(default)s)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="programs at a time (%(default)s)")
    parser.add_argument("--queue", type=int, default=4096, help="items that may wait (%(default)s)")
    parser.add_argument("--memory-mib", type=int, default=1024, help="address space of a program (%(default)s)")
    parser.add_argument("--scratch", default=temporary_folder(), help="where scratch folders go (%(default)s)")
    parser.add_argument(
        "--grace", type=float, default=5.0, help="seconds to finish requests when told to stop (%(default)s)"
    )
    parser.add_argument(
        "--runtime", choices=layers.RUNTIMES, default="runc", help="says which layers are required (%(default)s)"
    )
    parser.add_argument(
        "--optional-layer",
        action="append",
        default=[],
        metavar="NAME",
        choices=layers.MAY_BE_OPTIONAL,
        help="judge though this layer of the self-test does not hold; may be repeated",
    )
    parser.add_argument(
        "--must-not-reach",
        action="append",
        default=[],
        metavar="HOST:PORT",
        type=parse_address,
        help="judge only while no connection to this address comes about; may be repeated",
    )
    parser.add_argument("--without-landlock", action="store_true", help="judge without confining what files are read")
    parser.add_argument(
        "--canary-seconds", type=float, default=30.0, help="between two checks of each worker (%(default)s)"
    )
    parser.add_argument(
        "--site-packages", action="store_true", help="programs and tests may import what is installed here, numpy say"
    )
    parser.add_argument("--log-format", choices=logs.FORMATS, default="text", help="(%(default)s)")
    parser.add_argument("--log-programs", action="store_true", help="log programs and tests with their verdicts")
    parser.add_argument("--exit-with-parent", action="store_true", help="end when standard input ends")
    parser.add_argument("--self-test", action="store_true", help="try every layer, print the result, exit 0 or 1")
    options = parser.parse_args(arguments)
    check_options(parser, options)
    return options


def check_options(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Exit with code 2 and a sentence for what cannot be."""
    if options.workers < 1:
        parser.error(f"--workers is {options.workers}: at least one is needed.")
    if options.queue < LEAST_CAPACITY:
        parser.error(f"--queue is {options.queue}: at least {LEAST_CAPACITY}, the size of one request, is needed.")
    if options.memory_mib < 128:
        parser.error(f"--memory-mib is {options.memory_mib}: an interpreter needs at least 128.")
    if not options.canary_seconds > 0:
        parser.error(f"--canary-seconds is {options.canary_seconds:g}: it must be above 0.")
    if not os.access(options.scratch, os.W_OK | os.X_OK):
        parser.error(
            f"--scratch is {options.scratch or 'nowhere'}, which cannot be written to: name a folder that can."
        )
    if options.exit_with_parent and not is_stream(sys.stdin.fileno()):
        parser.error("--exit-with-parent needs a pipe as standard input: it ends when the pipe does.")
    if sys.platform != "linux" or kernel.MACHINE not in NUMBERS:
        parser.error("the sandbox runs on Linux, x86-64 or arm64, only: use a container elsewhere.")


def temporary_folder() -> str:
    """The system's temporary folder, "" where none can be written to (on a read-only root)."""
    try:
        return tempfile.gettempdir()
    except FileNotFoundError:
        return ""


def packages(offered: bool) -> tuple[str, ...]:
    """The folders of third-party packages that this interpreter uses, if they are to be offered."""
    names = ("site-packages", "dist-packages")
    return tuple(
        folder for folder in sys.path if offered and os.path.basename(folder) in names and os.path.isdir(folder)
    )


def is_stream(descriptor: int) -> bool:
    """Whether a descriptor is a pipe, a socket or a terminal: something whose end can be waited for."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


class Server(uvicorn.Server):
    """uvicorn, announcing itself on one line and ending with its parent when asked to."""

    def __init__(self, config: uvicorn.Config, service: Service, *, grace: float, exit_with_parent: bool) -> None:
        super().__init__(config)
        self._service = service
        self._grace = grace
        self._exit_with_parent = exit_with_parent

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Announce the address once requests are answered."""
        await super().startup(sockets)
        if self.should_exit or not sockets:
            return
        if self._exit_with_parent:
            asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._read_parent)
        host, port = sockets[0].getsockname()[:2]
        print(f"sandbox: listening on http://{f'[{host}]' if ':' in host else host}:{port}", flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let running requests finish for a while, then tell those that wait to ask elsewhere."""
        asyncio.get_running_loop().call_later(self._grace, setattr, self._service, "abandoned", True)
        await super().shutdown(sockets)

    def _read_parent(self) -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            self.should_exit = True


def reason_of(error: OSError | OverflowError) -> str:
    """Why an address cannot be had, in few words."""
    return getattr(error, "strerror", None) or str(error)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; exits with code 2 and a sentence when the address is taken or is none."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=512)
        # Connections inherit it. asyncio sees a socket made elsewhere and leaves it unset: an answer's body would wait
        # 40 ms for the client to acknowledge its head.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except (OSError, OverflowError) as error:  # the latter for a port beyond 65535
        print(f"sandbox: cannot listen on {host} port {port}: {reason_of(error)}.", file=sys.stderr)
        raise SystemExit(2) from None


def self_test(service: Service) -> int:
    """Print what the self-test finds as JSON; 0 when the service would judge."""
    try:
        service.start()
        service.surroundings.look()
        readiness = service.readiness()
    finally:
        service.stop()
    print(json.dumps(readiness.model_dump(), indent=2))
    return 0 if readiness.ready else 1


def configure(options: argparse.Namespace) -> Configuration:
    """The service's configuration, from the options and the environment."""
    optional = frozenset(options.optional_layer)
    return Configuration(
        settings=Settings(
            options.memory_mib << 20, not options.without_landlock, options.scratch, packages(options.site_packages)
        ),
        workers=options.workers,
        capacity=options.queue,
        token=os.environ.get("SANDBOX_TOKEN") or None,
        runtime=options.runtime,
        optional_layers=optional | layers.LANDLOCK_LAYERS if options.without_landlock else optional,
        canary_seconds=options.canary_seconds,
        log_programs=options.log_programs,
        must_not_reach=tuple(options.must_not_reach),
    )


def serve_metrics(service: Service, host: str, port: int) -> None:
    """Answer /metrics on a port of its own; exits with code 2 and a sentence when it is taken."""
    try:
        prometheus_client.start_http_server(port, host, service.metrics.registry)
    except (OSError, OverflowError) as error:
        print(f"sandbox: cannot serve metrics on {host} port {port}: {reason_of(error)}.", file=sys.stderr)
        raise SystemExit(2) from None


def main(arguments: list[str]) -> int:
    """Run the service until it is told to stop."""
    options = parse_arguments(arguments)
    logs.configure(options.log_format)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # its memory holds tests and the token
    service = Service(configure(options))
    if options.self_test:
        return self_test(service)
    listener = listen(options.host, options.port)
    if options.metrics_port:
        serve_metrics(service, options.host, options.metrics_port)
    patience = math.ceil(options.grace) + SPARE_SECONDS  # for what has been abandoned by then
    config = uvicorn.Config(make_app(service), log_config=None, access_log=False, timeout_graceful_shutdown=patience)
    with contextlib.suppress(KeyboardInterrupt):  # which uvicorn raises again once it has shut down
        Server(config, service, grace=options.grace, exit_with_parent=options.exit_with_parent).run(sockets=[listener])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
