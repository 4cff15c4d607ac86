"""Where closed sweeps go. A sink is one file here and one line in ``table``."""
