"""What stands in a run's way, before it is asked for (`doctor`) and after it got stuck (`doctor --run RUN`)."""
