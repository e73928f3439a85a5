"""Analysis of traces: pure functions over rows; results are frozen dataclasses with units in their names."""
