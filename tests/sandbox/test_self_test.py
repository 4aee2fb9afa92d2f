"""The self-test finds what leaks, and a service that leaks judges nothing."""

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path

import fastapi
import pytest
from sandbox import landlock, models, probes, service
from sandbox.pool import Pool
from sandbox.worker import Settings

from tests.sandbox.conftest import make_item

MEMORY = 1 << 30


@pytest.fixture
def open_pool(tmp_path: Path) -> Iterator[Pool]:
    """A pool whose jails have no Landlock, while its settings claim that they have."""
    pool = Pool(Settings(MEMORY, False, str(tmp_path)), workers=1, capacity=256, on_replaced=lambda: None)
    pool.start()
    pool.settings = Settings(MEMORY, True, str(tmp_path))
    yield pool
    pool.stop()


def make_service(folder: Path, *, use_landlock: bool = True) -> service.Service:
    return service.Service(Settings(MEMORY, use_landlock, str(folder)), workers=1, capacity=256, token=None)


def judge_one(running: service.Service) -> fastapi.HTTPException:
    request = models.VerdictsRequest.model_validate({"items": [make_item("def f(n):\n    return n", ["assert f(1)"])]})

    async def never() -> bool:
        return False

    with pytest.raises(fastapi.HTTPException) as refusal:
        asyncio.run(running.judge(request, never))
    return refusal.value


def test_a_layer_that_is_missing_is_found(open_pool: Pool) -> None:
    layers = probes.run_probes(open_pool)
    assert layers.pop("reading").startswith("leaks: ")
    assert set(layers.values()) == {"holds"}


def test_a_service_that_leaks_says_so_and_judges_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leak = probes.Probe("verdicts", "def attempt():\n    return 1", "assert attempt() == 2")
    monkeypatch.setattr(probes, "PROBES", (leak,))
    running = make_service(tmp_path)
    try:
        running.start()
        readiness = running.readiness()
        assert not readiness.ready
        assert readiness.reason is not None
        assert readiness.reason.startswith("verdicts leaks: ")
        refusal = judge_one(running)
        assert refusal.status_code == 503
        assert "verdicts leaks" in refusal.detail
    finally:
        running.pool.stop()


def test_without_landlock_in_the_kernel_it_judges_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    running = make_service(tmp_path)
    running.start()
    assert "--without-landlock" in str(running.readiness().reason)
    assert judge_one(running).status_code == 503
    running.pool.stop()  # of what never started


def test_rights_grow_with_the_kernel_s_landlock() -> None:
    masks = [landlock.handled_rights(version) for version in range(1, 8)]
    assert masks[0] == (0x1FFF, 0, 0)
    assert masks[6] == (0xFFFF, 3, 3)
    for earlier, later in itertools.pairwise(masks):
        assert all(old & new == old for old, new in zip(earlier, later, strict=True))
