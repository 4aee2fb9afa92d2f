"""The command line behind `python pipeline.py`."""
