"""How servers print job ids, undone: bytes in, the client's bytes out."""

import re

# 2.15.2 and later: quoted where anything needed an escape; a quote or backslash of the id itself is escaped.
# Between the quotes stand letters (Latin-1, as the kernel sees them), . @ - _ : / and, of all else, \xHH.
_BARE = rb"0-9A-Za-z.@_\xc0-\xd6\xd8-\xf6\xf8-\xff-"
_QUOTED = re.compile(rb'"((?:[' + _BARE + rb':/]|\\x[0-9A-F]{2})*)"')
_ESCAPE = re.compile(rb"\\x([0-9A-F]{2})")
_NEVER_ESCAPED = re.compile(rb"[" + _BARE + rb"]")


def decoded(printed: bytes, *, bare_colons: bool) -> bytes:
    """Return the id that was sent; anything that is not a server's own quoting is the id itself.

    Servers quote because of an escape. Those that leave colons bare (2.15.55 and later) also quote because of a
    colon or a leading ``@``.
    """
    match = _QUOTED.fullmatch(printed)
    if match is None:
        return printed
    escaped = bytes(int(code, 16) for code in _ESCAPE.findall(match[1]))
    needed_quotes = escaped or (bare_colons and (b":" in match[1] or match[1].startswith(b"@")))
    if not needed_quotes or _NEVER_ESCAPED.search(escaped):
        return printed
    return _ESCAPE.sub(lambda escape: bytes([int(escape[1], 16)]), match[1])
