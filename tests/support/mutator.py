"""Damages text as hostile clients, broken servers and pastes do; repeatable from its seed."""

import random

_TOKENS = rb"""
\n|\n\n| |\t|\0|\r\n|{|}|{ | }|[|]|:|,|"|\\x|\\x41|-|-5|0|null|=|\xc3\xa9|\xff
18446744073709551615|9223372036854775807|99999999999999999999999999|1e9|0x10|sum: -5|max:16777216|not supported
- job_id:|\n- job_id:          |job_stats:\n|  snapshot_time:   1|snapshot_time   : 5.000000001 secs.nsecs\n
samples:|unit:|hist: { 1M: 1 }|hist: {  }|, hist: {|read_bytes| samples [usecs] 1 2 3 4|obdfilter.fs-OST0000.job_stats=
"""
TOKENS = [
    token.decode("unicode_escape").encode("latin-1")
    for line in _TOKENS.split(b"\n")
    if line
    for token in line.split(b"|")
]


def mutated(text: bytes, rng: random.Random) -> bytes:
    """Return the text with one to four accidents."""
    data = bytearray(text)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(8)
        end = min(len(data), at + int(rng.expovariate(1 / 20)) + 1)
        if kind == 0 and data:
            data[at % len(data)] = rng.randrange(256)
        elif kind == 1:
            del data[at:end]
        elif kind == 2:
            data[at:at] = data[at:end]
        elif kind == 3:
            del data[at:]
        elif kind == 4:  # swap two lines
            lines = data.split(b"\n")
            first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[first], lines[second] = lines[second], lines[first]
            data = bytearray(b"\n".join(lines))
        elif kind == 5:  # a digit becomes another
            data[at:end] = bytes(rng.choice(b"0123456789-") if 48 <= byte < 58 else byte for byte in data[at:end])
        else:
            data[at:at] = rng.choice(TOKENS)
    return bytes(data)
