"""The `harvest` command: what aggregators know, for people and for programs."""
