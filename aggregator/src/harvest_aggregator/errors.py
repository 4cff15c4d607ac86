"""What can go wrong with what must last, in words for the person who must act."""


class LedgerError(Exception):
    """The ledger cannot be used, or cannot take this now; the message says why, and what to do."""
