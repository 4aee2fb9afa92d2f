"""The demo's tiny model, loaded once for what samples from it."""

from typing import Any

import pytest
import torch

from components.shared.models import load_model, load_tokenizer
from tests.conftest import DEMO_MODEL


@pytest.fixture(scope="module")
def model() -> Any:
    torch.set_num_threads(1)
    return load_model(str(DEMO_MODEL), "", torch.float32)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return load_tokenizer(str(DEMO_MODEL), "", use_chat_template=True)
