"""The document that `cctrace diff` prints: one comparison, put together from pairs of runs.

`document` says what is in it. `pairs` compares one pair of recordings, `combine` takes the breakdowns of
several pairs together, `headline` finds the sentence that matters, `gate` judges the difference by a limit,
and `assembly` makes the document of all of it.
"""
