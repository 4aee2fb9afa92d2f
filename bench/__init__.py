"""Benchmarks: what is claimed in numbers, measured. Never timed tests."""
