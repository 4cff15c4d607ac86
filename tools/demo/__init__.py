"""The whole of Harvest on one machine, on a simulated Lustre site: ``make demo``."""
