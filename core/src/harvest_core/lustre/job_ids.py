"""How servers print job ids, undone: bytes in, the client's bytes out."""

import re

# 2.15.2 and later: quoted where anything needed an escape; a quote or backslash of the id itself is escaped,
# so between the quotes stand only letters (Latin-1, as the kernel sees them), . @ - _ : / and \xHH.
_QUOTED = re.compile(rb'"((?:[0-9A-Za-z.@_:/\xc0-\xd6\xd8-\xf6\xf8-\xff-]|\\x[0-9A-F]{2})*)"')
_ESCAPE = re.compile(rb"\\x([0-9A-F]{2})")


def decoded(printed: bytes) -> bytes:
    """Return the id that was sent; anything that is not a server's own quoting is the id itself."""
    match = _QUOTED.fullmatch(printed)
    if match is None:
        return printed
    return _ESCAPE.sub(lambda escape: bytes([int(escape[1], 16)]), match[1])
