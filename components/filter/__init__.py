"""Step 2, optional: keep the problems that the policy which training starts from solves sometimes."""
