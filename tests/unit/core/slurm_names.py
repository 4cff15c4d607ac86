"""Names as the parsers ask for them."""


class Nobody:
    """Knows a name for every number, and keeps in mind who was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def user(self, uid: int) -> str:
        self.asked.append(f"u{uid}")
        return f"u{uid}"

    def group(self, gid: int) -> str:
        self.asked.append(f"g{gid}")
        return f"g{gid}"
