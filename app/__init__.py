"""Presentation: terminal output, and the colours that all outputs share."""
