"""The viewer: `cctrace view`. Pages in a browser that show one recording, or explain a pair.

`view` holds what was opened and computes analyses once (`jobs`); `address` is the whole state of a page;
`pages/` has one module for each page; `shell` frames them; `server` and `security` make a web application of
it, and `serve` runs it. Nothing of a session is kept: every answer follows from the address and the files.
"""
