"""Step 2, optional: keep the problems that the base solves sometimes."""
