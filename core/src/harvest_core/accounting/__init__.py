"""From what servers showed to what jobs did. Needs numpy: columns of a million records."""
