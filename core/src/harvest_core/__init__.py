"""Harvest's pure heart: values and decisions, no I/O and no clock."""
