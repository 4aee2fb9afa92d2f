"""The self-test finds what leaks, and a service that leaks judges nothing."""

import asyncio
import dataclasses
import itertools
from collections.abc import Iterator
from pathlib import Path

import fastapi
import pytest
from sandbox import landlock, layers, models, probes, service
from sandbox.metrics import Metrics
from sandbox.pool import Pool
from sandbox.version import judge_version
from sandbox.worker import Settings

from tests.sandbox.conftest import make_item

MEMORY = 1 << 30


@pytest.fixture
def open_pool(tmp_path: Path) -> Iterator[Pool]:
    """A pool whose jails have no Landlock, while its settings claim that they have."""
    pool = Pool(
        Settings(MEMORY, False, str(tmp_path)), workers=1, capacity=256, canary_seconds=60.0, observer=Metrics()
    )
    pool.start()
    pool.settings = Settings(MEMORY, True, str(tmp_path))
    yield pool
    pool.stop()


def make_service(folder: Path, *, runtime: str = "runc", optional: frozenset[str] = frozenset()) -> service.Service:
    return service.Service(
        service.Configuration(
            settings=Settings(MEMORY, True, str(folder)),
            workers=1,
            capacity=256,
            token=None,
            runtime=runtime,
            optional_layers=optional,
            canary_seconds=60.0,
            log_programs=False,
        )
    )


def judge_one(running: service.Service) -> fastapi.HTTPException:
    request = models.VerdictsRequest.model_validate({"items": [make_item("def f(n):\n    return n", ["assert f(1)"])]})

    async def never() -> bool:
        return False

    with pytest.raises(fastapi.HTTPException) as refusal:
        asyncio.run(running.judge("a client", request, never))
    return refusal.value


def test_a_layer_that_is_missing_is_found(open_pool: Pool) -> None:
    findings = probes.run_probes(open_pool)
    for name in ("reading", "tests: reading"):
        assert findings[name].state == "leaks"
        assert "/etc/passwd" in findings.pop(name).detail
    assert {finding.state for finding in findings.values()} == {"holds"}
    assert set(findings) == set(layers.BY_NAME) - layers.LANDLOCK_LAYERS


def test_a_service_that_leaks_says_so_and_judges_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leak = probes.Probe("network", "a leak", "def attempt():\n    return 1", "assert attempt() == 2")
    monkeypatch.setattr(probes, "PROBES", (*probes.PROBES, leak))
    running = make_service(tmp_path)
    try:
        running.start()
        readiness = running.readiness()
        assert not readiness.ready
        assert readiness.reason is not None
        assert readiness.reason.startswith("network leaks: 'a leak' came to failed")
        assert readiness.layers["network"].state == "leaks"
        assert readiness.layers["network"].required
        refusal = judge_one(running)
        assert refusal.status_code == 503
        assert "network leaks" in refusal.detail
    finally:
        running.pool.stop()


def test_a_leak_of_an_optional_layer_is_reported_and_judged_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leak = probes.Probe("network", "a leak", "def attempt():\n    return 1", "assert attempt() == 2")
    monkeypatch.setattr(probes, "PROBES", (*probes.PROBES, leak))
    running = make_service(tmp_path, optional=frozenset({"network"}))
    try:
        running.start()
        readiness = running.readiness()
        assert readiness.ready
        assert (readiness.layers["network"].state, readiness.layers["network"].required) == ("leaks", False)
    finally:
        running.pool.stop()


def test_a_layer_that_no_probe_tries_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "PROBES", [probe for probe in probes.PROBES if probe.layer != "descriptors"])
    running = make_service(tmp_path)
    try:
        running.start()
        assert running.readiness().reason == "descriptors absent: it was not tried"
    finally:
        running.pool.stop()


def test_without_landlock_in_the_kernel_it_judges_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    running = make_service(tmp_path)
    running.start()
    readiness = running.readiness()
    assert "--without-landlock" in str(readiness.reason)
    assert readiness.layers["reading"].state == "absent"
    assert judge_one(running).status_code == 503
    running.pool.stop()  # of what never started


@pytest.mark.parametrize("runtime", ["gvisor", "bare"])
def test_where_the_runtime_has_no_landlock_it_judges_without(
    runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    running = make_service(tmp_path, runtime=runtime)
    try:
        running.start()
        readiness = running.readiness()
        assert readiness.ready
        assert (readiness.layers["reading"].state, readiness.layers["reading"].required) == ("absent", False)
        assert (readiness.layers["writing"].state, readiness.layers["writing"].required) == ("holds", True)
    finally:
        running.pool.stop()


def test_the_matrix_names_layers_that_exist() -> None:
    everything = frozenset(layers.BY_NAME)
    assert layers.required_layers("runc", frozenset()) == everything
    for runtime in layers.RUNTIMES:
        assert everything - layers.required_layers(runtime, frozenset()) <= layers.LANDLOCK_LAYERS
    assert layers.required_layers("runc", frozenset({"network"})) == everything - {"network"}
    assert {probe.layer for probe in probes.PROBES} == everything


def test_rights_grow_with_the_kernel_s_landlock() -> None:
    masks = [landlock.handled_rights(version) for version in range(1, 8)]
    assert masks[0] == (0x1FFF, 0, 0)
    assert masks[6] == (0xFFFF, 3, 3)
    for earlier, later in itertools.pairwise(masks):
        assert all(old & new == old for old, new in zip(earlier, later, strict=True))


def test_the_version_changes_with_whatever_verdicts_depend_on(tmp_path: Path) -> None:
    plain = Settings(MEMORY, True, str(tmp_path))
    (tmp_path / "numpy-2.0.dist-info").mkdir()
    others = [
        dataclasses.replace(plain, memory_bytes=MEMORY // 2),
        dataclasses.replace(plain, use_landlock=False),
        dataclasses.replace(plain, packages=(str(tmp_path),)),
    ]
    assert len({judge_version(settings) for settings in [plain, *others]}) == 4
    assert judge_version(dataclasses.replace(plain, scratch_parent="/elsewhere")) == judge_version(plain)
