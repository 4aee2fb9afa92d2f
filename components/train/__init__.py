"""Step 3: GRPO over the problems, rewarded by their unit tests."""
