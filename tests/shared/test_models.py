"""Loading models and tokenizers, and what is said when they cannot be."""

from pathlib import Path

import pytest
import torch

from components.shared.errors import InfraError, UserError
from components.shared.models import load_base, load_model, load_tokenizer, resolve_precision


def test_what_cannot_be_loaded_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserError, match="holds no tokenizer"):
        load_tokenizer(str(tmp_path), "", use_chat_template=False)
    with pytest.raises(UserError, match="cannot be loaded"):
        load_model(str(tmp_path), "", torch.float32)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"holds no model: config\.json is missing"):
        load_model(str(tmp_path / "empty"), "", torch.float32)
    with pytest.raises((UserError, InfraError)) as caught:
        load_model("nobody/no-such-model", "", torch.float32)
    assert "nobody/no-such-model" in str(caught.value)


def test_precision_follows_the_machine() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    assert resolve_precision("auto") == torch.float32
    with pytest.raises(UserError, match="needs a CUDA GPU"):
        resolve_precision("fp16")
    with pytest.raises(UserError, match="use one of auto, bf16, fp16, fp32"):
        resolve_precision("fp8")
    with pytest.raises(UserError, match="use lora on this machine"):
        load_base("any", "", method="qlora", precision="auto")
