"""The operator: one HarvestSite becomes a running site."""
