"""KFP face of the step that stands for training where on_unchanged skip has found nothing to do."""

from kfp import dsl

from components.images import image


@dsl.component(base_image=image("prepare"), install_kfp_package=False)
def unchanged(run_id: str, resume_run: str, since: str):
    """Write down which run this one would have repeated."""
    from components.shared.errors import reported

    with reported("unchanged"):
        from components.unchanged import skip

        skip(run_id, resume_run, since)
