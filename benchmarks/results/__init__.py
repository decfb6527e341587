"""The results of a run: its lines in a file, as a chart and as tables."""
