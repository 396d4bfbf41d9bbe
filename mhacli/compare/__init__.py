"""Comparing: two dumps stage by stage, and one dump with what its own inputs should have given."""
