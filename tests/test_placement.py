"""The rules for where pods run: what Kubernetes would refuse or never schedule is refused before it is asked."""

import pytest

from cli.parameters import merged
from components.placement import wrong_placement
from components.pods import PLACEMENT
from components.settings import check
from components.shared.errors import UserError


def test_the_defaults_fit():
    assert wrong_placement(merged({})) == []
    assert set(PLACEMENT) <= set(merged({}))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"gpus": "one"}, "gpus 'one' is no number of GPUs"),
        ({"gpus": "-1"}, "gpus '-1'"),
        ({"gpus": ""}, "gpus ''"),
        ({"gpu_resource": "gpu"}, "write it like nvidia.com/gpu"),
        ({"train_cpu": "four"}, "train_cpu 'four' is no amount of cpu"),
        ({"train_cpu": "0"}, "train_cpu '0'"),
        ({"train_memory": "32GB"}, "train_memory '32GB' is no amount of memory"),
        ({"train_memory": "32"}, "has no unit"),
        ({"evaluate_memory": "500m"}, "has no unit"),
        ({"store_secret": "My Secret"}, "store_secret 'My Secret' is no name of a Secret"),
        ({"hf_secret": ""}, "hf_secret ''"),
        ({"node_selector": {"accelerator": 1}}, "node_selector must be labels with text values"),
        ({"node_selector": ["a"]}, "node_selector must be"),
        ({"tolerations": {"key": "a"}}, "tolerations must be a list"),
        ({"tolerations": [{"keys": "a"}]}, "no field 'keys'"),
        ({"tolerations": [{"key": "a", "operator": "Is"}]}, "operator 'Is' is unknown"),
        ({"tolerations": [{"key": "a", "effect": "noschedule"}]}, "effect 'noschedule' is unknown"),
        ({"tolerations": [{"value": "a"}]}, "needs operator Exists"),
    ],
)
def test_what_is_refused(values, words):
    with pytest.raises(UserError) as refused:
        check(merged(values))
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "values",
    [
        {"gpus": "0"},
        {"gpus": "8", "gpu_resource": "amd.com/gpu"},
        {"train_cpu": "500m", "train_memory": "1.5Gi"},
        {"node_selector": {"nvidia.com/gpu.product": "A100"}},
        {"tolerations": [{"operator": "Exists"}, {"key": "a", "value": "b", "effect": "NoExecute"}]},
    ],
)
def test_what_kubernetes_takes_is_taken(values):
    assert check(merged(values)) == []
