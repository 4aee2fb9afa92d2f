"""The pipeline's steps and what they share."""
