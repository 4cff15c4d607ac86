from support.fuzzing import fuzz


def test_no_text_makes_a_parser_raise_or_lose_a_line() -> None:
    fuzz(100_000, seed=1)
