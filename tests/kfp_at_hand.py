"""Which Kubeflow Pipelines the tests have: none, one for a single user, or one for several."""

import os

import pytest

from cli.endpoint import Endpoint


def kfp_serves_several_users() -> bool:
    """Whether the Kubeflow Pipelines at hand does; skips where there is none."""
    if not os.environ.get("KFP_ENDPOINT"):
        pytest.skip("no Kubeflow Pipelines: KFP_ENDPOINT is not set")
    return Endpoint.of().health.multi_user


def for_a_single_user() -> None:
    """Skip unless the Kubeflow Pipelines at hand serves one, whose runs are in its own namespace."""
    if kfp_serves_several_users():
        pytest.skip("this Kubeflow Pipelines serves several users, whose runs are in other namespaces")


def for_several_users() -> None:
    """Skip unless it serves several, each in the namespace of a profile."""
    if not kfp_serves_several_users():
        pytest.skip("this Kubeflow Pipelines serves a single user: there are no profiles")
