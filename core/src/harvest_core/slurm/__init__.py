"""What Slurm says of its jobs, in all its forms, as values."""
