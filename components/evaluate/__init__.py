"""Step 4: base and tuned model on the same held-out problems."""
