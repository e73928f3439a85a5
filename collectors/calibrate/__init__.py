"""Measures what submissions, copies and collectives take on this machine, in the state of CC it is in."""
