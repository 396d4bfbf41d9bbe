"""Results made visible: tables, JSON, CSV, plain text. Knows no files and no mathematics."""
