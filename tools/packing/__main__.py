"""``make images [FRESH=1]``, ``make rpm``."""

import argparse
import sys

from packing import rpm
from packing.programs import archive_path, pack
from packing.running import ROOT, PackingError


def main() -> int:
    """Make what is asked for, and tell its size."""
    parser = argparse.ArgumentParser(prog="python -m packing", description=main.__doc__)
    kinds = parser.add_subparsers(required=True, dest="kind")
    images = kinds.add_parser("images", help="all images, in one archive in dist/")
    images.add_argument("--fresh", action="store_true", help="make the base anew, of today's Debian packages")
    kinds.add_parser("rpm", help="the agent's packages for servers, in dist/")
    options = parser.parse_args()
    try:
        _make_packages() if options.kind == "rpm" else _make_images(fresh=options.fresh)
    except PackingError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _make_images(*, fresh: bool) -> None:
    target = archive_path()
    for image in pack(target, fresh=fresh):
        sizes = " + ".join(f"{layer.size_bytes / 1e6:.1f}" for layer in image.layers)
        print(f"{image.name:35} {image.size_bytes / 1e6:6.1f} MB: {sizes} (base, dependencies, Harvest)")
    print(f"all in {target} ({target.stat().st_size / 1e6:.1f} MB), which has the base once")


def _make_packages() -> None:
    for file in rpm.pack(ROOT / "dist", rpm.all_packages(), epoch=rpm.release_time()):
        print(f"dist/{file.name} ({file.stat().st_size / 1e6:.1f} MB)")


if __name__ == "__main__":
    sys.exit(main())
