"""The embedded default: a tiny pretrained code model, a problem set in MBPP's format, and what builds both.

`python demo/build.py` rebuilds everything from nothing; README.md says what the demo proves and what it does not.
"""
