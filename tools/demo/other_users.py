"""``python other_users.py ETC …``: harvest-agent as on a host whose users are in ETC, not those of this machine."""

import grp
import pwd
import sys
from pathlib import Path

from harvest_agent.__main__ import main


def _rows(path: Path) -> list[list[str]]:
    return [line.split(":") for line in path.read_text().splitlines()]


if __name__ == "__main__":
    etc = Path(sys.argv.pop(1))
    users = {int(row[2]): (*row[:2], int(row[2]), int(row[3]), *row[4:]) for row in _rows(etc / "passwd")}
    groups = {int(row[2]): (*row[:2], int(row[2]), row[3].split(",")) for row in _rows(etc / "group")}
    pwd.getpwuid = lambda uid: pwd.struct_passwd(users[uid])
    grp.getgrgid = lambda id: grp.struct_group(groups[id])  # noqa: A006 - as it is called there
    sys.exit(main())
