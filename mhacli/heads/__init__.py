"""Heads: what each looks at, what its weights say, which matter."""
