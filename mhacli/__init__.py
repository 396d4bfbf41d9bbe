"""Multi-head attention, inspected."""

__version__ = "0.1.0"
