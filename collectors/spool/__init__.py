"""Spools, what recorded processes append to while they run, and their conversion to a trace."""

from cctrace.collectors.spool.convert import Conversion, convert

__all__ = ["Conversion", "convert"]
