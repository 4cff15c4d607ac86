"""From Lustre's ids to jobs: whose they are, and how they live."""
