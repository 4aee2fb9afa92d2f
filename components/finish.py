"""KFP face of the exit handler: it runs last, whatever became of the run, and leaves the final status page."""

from kfp import dsl

from components.images import image


@dsl.component(base_image=image("prepare"), install_kfp_package=False)
def finish(run_id: str, resume_run: str, status: dsl.PipelineTaskFinalStatus) -> None:
    """Write runs/<run>/status.json and status.html: the outcome, the failed step's sentence, how to resume."""
    from components.shared.errors import reported

    with reported("finish"):
        from components.shared.status import write_status
        from components.unchanged import remember

        told = write_status(run_id, resume_run, state=status.state, error=status.error_message or "")
        remember(run_id, resume_run, told)
