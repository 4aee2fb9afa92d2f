"""KFP face of fetch_model: on a cluster, the one step that takes a model from the hub.

It runs beside prepare and without a GPU. It is never taken from KFP's cache, which would not notice that the store has
been cleaned; where the model is in the store it is done at once.
"""

from kfp import dsl

from components.images import image


@dsl.component(base_image=image("prepare"), install_kfp_package=False)
def fetch_model(model_name: str, model_revision: str) -> str:
    """Mirror the model into the store; the revision that it returns is what the steps after it wait for."""
    from components.shared.errors import reported

    with reported("fetch_model"):
        from components.shared.mirror import fetch_model

        fetch_model(model_name, model_revision)
    return model_revision
