"""KFP face of the step that follows on evaluate where KFP may take train and evaluate from its cache: whose results
the run has.

It is in the pipeline only where that is compiled into it. A step that is taken from the cache says nothing in the run's
record, and KFP's metadata store then tells the last step that the run were still at work, as it does of a run that was
killed. What comes after evaluate, and is never reused, knows better.
"""

from kfp import dsl

from components.images import image


@dsl.component(base_image=image("prepare"), install_kfp_package=False)
def reused(evaluation: dsl.Input[dsl.Artifact], run_id: str, resume_run: str):
    """Write down which run's results these are, if they are not this one's."""
    from pathlib import Path

    from components.shared.errors import reported

    with reported("reused"):
        from components.unchanged import credit

        credit(run_id, resume_run, Path(evaluation.path))
