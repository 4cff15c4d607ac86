"""Reads Lustre's counters on a server, lightly."""
