"""`python -m harvest_site crd`: write the CustomResourceDefinition that the chart installs."""

import argparse
import sys

import yaml

from harvest_site.crd import definition

_HEAD = "# Written by `python -m harvest_site crd` from the model of a site; a test compares the two.\n"


def crd_text() -> str:
    """Return the CustomResourceDefinition as YAML."""
    return _HEAD + yaml.safe_dump(definition(), sort_keys=False, width=1 << 20, allow_unicode=True)


def main() -> int:
    """Run one command."""
    parser = argparse.ArgumentParser(prog="python -m harvest_site", description="What Kubernetes is to know of a site.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser("crd", help="write the CustomResourceDefinition of a HarvestSite to standard output")
    parser.parse_args()
    print(crd_text(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
