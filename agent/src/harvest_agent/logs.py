"""Log lines on standard error: plain key=value text; time and level are added by whoever keeps it."""

import sys

from harvest_agent.tables import shown


def say(event: str, **facts: object) -> None:
    """Write one line; text with blanks is quoted."""
    words = [event, *(f"{name}={_word(value)}" for name, value in facts.items() if value is not None)]
    sys.stderr.write(f"{' '.join(words)}\n")
    sys.stderr.flush()


def _word(value: object) -> str:
    text = shown(f"{value:.3f}" if isinstance(value, float) else str(value))
    return f'"{text}"' if not text or set(text) & set(" =\"'") else text
