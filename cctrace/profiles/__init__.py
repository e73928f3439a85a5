"""Platform profiles: what confidential computing costs, each value with its source and uncertainty.

`model` is the document, `files` reads and writes it, `tables` interpolates over size, `difference` makes what
CC adds out of two measurements, `emulation` is what `record --emulate` charges. They are imported where they
are used: the models take longer to load than most commands take to run. `shipped` lists the names alone.
"""
