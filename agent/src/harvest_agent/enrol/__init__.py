"""``harvest-agent enrol``: in a Pod, gets the node's certificate from the site's operator, and keeps it fresh."""

from typing import Final

CONFIG: Final = "agent.toml"
"""The configuration for ``harvest-agent run``; it is written last, so that where it is, all is."""
