"""The slurm collector: what a cluster's Slurm knows of its jobs. Nothing here is ever waited for by a sweep."""
