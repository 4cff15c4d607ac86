"""How job_stats writes job ids, and what of an id can be read back (§1.2)."""

from harvest_sim.versions import IdRule, Version, traits

MAX_ID_BYTES = 31


def _is_alphanumeric(byte: int) -> bool:
    # §1.2: the kernel's Latin-1 ctype; 0xD7 and 0xF7 are the signs for times and divided by
    return bytes([byte]).isalnum() or (byte >= 0xC0 and byte not in {0xD7, 0xF7})


def _is_printable(byte: int) -> bool:
    # §1.2: 0xA0-0xBF are punctuation, 0x80-0x9F are nothing
    return 0x20 <= byte <= 0x7E or byte >= 0xA0


def _escapes(bare: bytes) -> tuple[bytes, ...]:
    return tuple(bytes([byte]) if _is_alphanumeric(byte) or byte in bare else b"\\x%02X" % byte for byte in range(256))


_QUESTION_MARKS = bytes(byte if _is_printable(byte) else ord("?") for byte in range(256))
_BARE_A = b".@-_"
_BARE_B = b".@-_:/"
_ESCAPES_A = _escapes(_BARE_A)
_ESCAPES_B = _escapes(_BARE_B)


def cut_id(job_id: bytes) -> bytes:
    """Return the id as the server keeps it: a C string of at most 31 bytes, cut hard."""
    return job_id.split(b"\0", 1)[0][:MAX_ID_BYTES]


def question_marked(job_id: bytes) -> bytes:
    """Replace what the kernel cannot print, as 2.7.61 to 2.15.1 do."""
    return job_id.translate(_QUESTION_MARKS)


def job_id_text(version: Version, job_id: bytes) -> bytes:
    """Return the bytes that stand behind ``job_id:``."""
    features = traits(version)
    job_id = cut_id(job_id)
    match features.id_rule:
        case IdRule.RAW:
            return job_id
        case IdRule.QUESTION:
            return question_marked(job_id)
        case IdRule.A:
            return _quoted(job_id, _ESCAPES_A, always=False)
        case IdRule.B:
            leading_at = features.quotes_leading_at and job_id.startswith(b"@")
            return _quoted(job_id, _ESCAPES_B, always=leading_at or b":" in job_id)


def readable_id(version: Version, job_id: bytes) -> bytes:
    """Return the id that a perfect reader gets back from the text."""
    job_id = cut_id(job_id)
    match traits(version).id_rule:
        case IdRule.RAW:
            return job_id.split(b"\n", 1)[0]  # §1.1: a newline in the id breaks the record
        case IdRule.QUESTION:
            return question_marked(job_id)
        case IdRule.A | IdRule.B:
            return job_id


def id_from_command(version: Version, text: bytes) -> bytes:
    """Return the id that an admin means by writing ``text`` to job_stats."""
    text = text.removesuffix(b"\n")
    quoted = len(text) >= 2 and text.startswith(b'"') and text.endswith(b'"')
    if not (quoted and traits(version).accepts_quoted_id):
        return text
    head, *rest = text[1:-1].split(b"\\x")
    return head + b"".join(bytes.fromhex(part[:2].decode()) + part[2:] for part in rest)


def _quoted(job_id: bytes, escapes: tuple[bytes, ...], *, always: bool) -> bytes:
    escaped = b"".join(escapes[byte] for byte in job_id)
    return b'"%s"' % escaped if always or escaped != job_id else escaped
