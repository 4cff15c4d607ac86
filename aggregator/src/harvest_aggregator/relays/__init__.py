"""What one cluster's nodes do on a file system of another site: told to that cluster's own aggregator, and taken in."""
