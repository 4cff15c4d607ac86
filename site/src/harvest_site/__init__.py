"""What a site is: one model and one set of rules for the stand-alone aggregator, the operator and its CRD."""
