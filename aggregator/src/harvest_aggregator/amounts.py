"""What was done, by place and counter: added up, and taken apart."""

import json

from harvest_core.accounting.totals import Counter

Amounts = dict[tuple[str, str], dict[Counter, tuple[int, int]]]
"""By file system and kind of target: (samples, sum) of every counter."""


def less(amounts: Amounts, others: Amounts) -> Amounts:
    """Return what is left of amounts when others, which are part of them, are taken away."""
    return {
        place: {
            counter: (samples - gone[0], total - gone[1])
            for counter, (samples, total) in counters.items()
            if (gone := others.get(place, {}).get(counter, (0, 0))) != (samples, total)
        }
        for place, counters in amounts.items()
    }


def plus(amounts: Amounts, others: Amounts) -> Amounts:
    """Return both together."""
    both: Amounts = {place: dict(counters) for place, counters in amounts.items()}
    for place, counters in others.items():
        own = both.setdefault(place, {})
        for counter, (samples, total) in counters.items():
            before = own.get(counter, (0, 0))
            own[counter] = (before[0] + samples, before[1] + total)
    return both


def dump(amounts: Amounts) -> str:
    """Return amounts as text."""
    return json.dumps(
        [[*place, [[*counter, *both] for counter, both in some.items()]] for place, some in amounts.items()]
    )


def load(text: str) -> Amounts:
    """Return what was dumped."""
    return {
        (filesystem, kind): {(name, unit): (samples, total) for name, unit, samples, total in counters}
        for filesystem, kind, counters in json.loads(text)
    }
