"""Batches of any size say the same on a CPU; what does not fit into memory is drawn in smaller ones."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model

from components.shared import batches
from components.shared.batches import MOST_ROWS, Sampler, batch_effect, fit_of, rows_that_fit, sample
from components.shared.errors import UserError
from components.shared.models import load_model
from components.shared.sampling import Sampling, rows_at_once
from tests.conftest import DEMO_MODEL, ROOT, demo_problems

PROBLEMS = demo_problems(16)
PLAIN = Sampling(temperature=1.0, top_p=1.0, max_completion_length=32, use_chat_template=False)
NARROW = Sampling(temperature=0.8, top_p=0.9, max_completion_length=32, use_chat_template=False)
GREEDY = Sampling(temperature=0.0, top_p=1.0, max_completion_length=32, use_chat_template=False)


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    torch.set_num_threads(1)  # two threads of torch wait long for each other where other tests run


def draw(model: Any, tokenizer: Any, problems: list[Any] = PROBLEMS, sampling: Sampling = PLAIN, **changes: Any) -> Any:
    return sample(model, tokenizer, problems, sampling, **{"samples": 4, "seed": 7, **changes})


@pytest.mark.parametrize(
    ("sampling", "samples"), [(PLAIN, 4), pytest.param(NARROW, 4, marks=pytest.mark.slow), (GREEDY, 1)]
)
def test_in_fp32_on_a_cpu_the_batch_size_changes_nothing(
    model: Any, tokenizer: Any, sampling: Sampling, samples: int
) -> None:
    alone = draw(model, tokenizer, sampling=sampling, samples=samples, batch_size=1)
    for batch_size in (3, 7, 64):
        assert draw(model, tokenizer, sampling=sampling, samples=samples, batch_size=batch_size) == alone
    assert len({one.text for group in alone for one in group}) > 8


def test_a_completion_depends_on_its_seed_and_name_alone(model: Any, tokenizer: Any) -> None:
    together = draw(model, tokenizer)
    assert draw(model, tokenizer, PROBLEMS[::-1]) == together[::-1]
    assert draw(model, tokenizer, PROBLEMS[:3], samples=2) == [group[:2] for group in together[:3]]
    assert draw(model, tokenizer, seed=8) != together


def test_progress_counts_completions(model: Any, tokenizer: Any) -> None:
    seen: list[int] = []
    draw(model, tokenizer, PROBLEMS[:4], samples=3, batch_size=5, on_progress=seen.append)
    assert seen == [5, 10, 12]


@contextmanager
def forward(model: Any, hook: Callable[[int], None]) -> Iterator[None]:
    """Call the hook with the number of rows before each forward pass of the real model."""
    handle = model.register_forward_pre_hook(
        lambda _module, _positional, named: hook(len(named["input_ids"])), with_kwargs=True
    )
    try:
        yield
    finally:
        handle.remove()


class Memory:
    """A memory for so many rows, which runs out in the third pass of a larger batch, as a growing cache does."""

    def __init__(self, rows: int, error: Exception) -> None:
        self.rows, self.error, self.passes = rows, error, 0
        self.seen: list[int] = []

    def __call__(self, rows: int) -> None:
        self.seen.append(rows)
        self.passes += rows > self.rows
        if rows > self.rows and self.passes % 3 == 0:
            raise self.error


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_after_memory_ran_out_smaller_batches_say_the_same(
    tokenizer: Any, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    model = load_model(str(DEMO_MODEL), "", torch.float32)
    whole = draw(model, tokenizer, batch_size=64)
    with forward(model, memory := Memory(20, error)):
        assert draw(model, tokenizer, step="evaluate") == whole
        assert capsys.readouterr().out.splitlines() == [
            f"evaluate: warning: memory ran out with {tried} completions at once, so at most {tried // 2} are drawn "
            "now; what they say does not depend on it"
            for tried in (64, 32)
        ]
        memory.seen.clear()
        assert draw(model, tokenizer) == whole  # the next pass over this model remembers
    assert max(memory.seen) == 16
    assert capsys.readouterr().out == ""
    assert fit_of(load_model(str(DEMO_MODEL), "", torch.float32)).rows == rows_at_once(model)  # another model does not


@pytest.mark.slow
def test_when_not_even_one_row_fits_the_remedy_is_said(tokenizer: Any) -> None:
    model = load_model(str(DEMO_MODEL), "", torch.float32)
    with (
        forward(model, Memory(0, torch.OutOfMemoryError("CUDA out of memory"))),
        pytest.raises(UserError, match="Not even one completion at a time fits"),
    ):
        draw(model, tokenizer)


def test_other_failures_are_not_taken_for_lack_of_memory(tokenizer: Any) -> None:
    model = load_model(str(DEMO_MODEL), "", torch.float32)
    with (
        forward(model, Memory(0, RuntimeError("shape mismatch"))),
        pytest.raises(RuntimeError, match="shape mismatch"),
    ):
        draw(model, tokenizer)


LIMITED = """
import json, resource, torch
from components.shared.batches import Sampler
from components.shared.models import load_model, load_tokenizer
from components.shared.sampling import Sampling
from tests.conftest import DEMO_MODEL, demo_problems

torch.set_num_threads(1)
model = load_model(str(DEMO_MODEL), "", torch.float32)
tokenizer = load_tokenizer(str(DEMO_MODEL), "", use_chat_template=False)
rows = [(problem, number) for problem in demo_problems(32) for number in range(32)]
sampling = Sampling(temperature=1.0, top_p=1.0, max_completion_length=4, use_chat_template=False)
whole = Sampler(model, tokenizer, sampling, seed=1, rows=256).draw(rows)
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + 32 * 2**20, -1))
limited = Sampler(model, tokenizer, sampling, seed=1, rows=len(rows))
print(json.dumps({"same": limited.draw(rows) == whole, "rows": limited.rows}))
"""


@pytest.mark.slow
def test_a_real_limit_of_memory_is_kept_to() -> None:
    """In a process of its own, whose address space ends 32 MiB further on."""
    done = subprocess.run([sys.executable, "-c", LIMITED], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "memory ran out with 1024 completions at once, so at most 512 are drawn" in done.stdout
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["same"]
    assert 8 <= found["rows"] <= 512


def test_an_adapter_on_top_has_the_memory_of_its_base() -> None:
    base = load_model(str(DEMO_MODEL), "", torch.float32)
    adapted = get_peft_model(base, LoraConfig(target_modules="all-linear", task_type="CAUSAL_LM"))
    assert fit_of(adapted).rows == rows_at_once(adapted)
    fit_of(base).rows = 5
    assert fit_of(adapted) is fit_of(base)


@pytest.mark.parametrize(
    ("taken", "drawn", "free", "rows"),
    [
        (1000, 10, 10_000, 60),  # 100 bytes a row, and 60 % of what is free
        (1000, 10, 100, 1),  # never none
        (10, 10, 10**12, MOST_ROWS),
        (0, 10, 10**6, MOST_ROWS),
    ],
)
def test_rows_follow_what_a_row_took(taken: int, drawn: int, free: int, rows: int) -> None:
    assert rows_that_fit(taken, drawn, free) == rows


def test_batches_grow_to_what_the_first_one_showed_and_never_again_after_memory_ran_out(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the meter of a GPU that has room for 40 rows, it says, and really has it for 20."""
    model = load_model(str(DEMO_MODEL), "", torch.float32)
    monkeypatch.setattr(batches, "rows_at_once", lambda _: 4)
    monkeypatch.setattr(batches._Meter, "rows", lambda _meter, _drawn: 40)
    with forward(model, memory := Memory(20, torch.OutOfMemoryError("CUDA out of memory"))):
        draw(model, tokenizer)
    assert list(dict.fromkeys(memory.seen)) == [4, 40, 20]
    assert fit_of(model).rows == 20


def test_greedy_takes_the_likeliest_token(model: Any, tokenizer: Any) -> None:
    (completion,) = Sampler(model, tokenizer, GREEDY, seed=1).draw([(PROBLEMS[0], 0)])
    ids = torch.tensor([completion.prompt_ids])
    with torch.no_grad():
        for token in completion.token_ids:
            assert model(ids).logits[0, -1].argmax() == token
            ids = torch.cat([ids, torch.tensor([[token]])], dim=1)


def test_the_effect_of_the_batch_size_is_none_in_fp32(
    model: Any, tokenizer: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    found = batch_effect(model, tokenizer, PROBLEMS, PLAIN, seed=1, step="filter")
    assert found == {"completions": 16, "changed": 0, "share": 0.0, "batch_sizes": [64, 16]}
    said = capsys.readouterr().out
    assert said == "filter: 0 of 16 completions change between batches of 64 and of 16\n"
    assert batch_effect(model, tokenizer, PROBLEMS[:1], PLAIN, seed=1, step="filter")["batch_sizes"] == [4, 2]


def test_an_effect_of_the_batch_size_is_seen(model: Any, tokenizer: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Logits that follow the batch size, as rounding makes them on a GPU, only more so."""
    handle = model.lm_head.register_forward_hook(
        lambda _module, _in, logits: logits * (1.0 if len(logits) > 16 else 0.3)
    )
    try:
        found = batch_effect(model, tokenizer, PROBLEMS, PLAIN, seed=1, step="filter")
    finally:
        handle.remove()
    assert found["changed"] > 8
    assert found["share"] == found["changed"] / 16
    assert "rounding follows the batch size here" in capsys.readouterr().out
