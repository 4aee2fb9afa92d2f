"""Step 1: a data set becomes problems whose references pass."""
