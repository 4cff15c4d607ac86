"""Lustre's text as values: one module per kind of file, each a total function that never raises."""
