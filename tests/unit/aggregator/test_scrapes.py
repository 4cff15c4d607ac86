from harvest_aggregator.sinks.scrapes import HOLD_SECONDS, Scrapes


def test_the_longest_time_between_two_scrapes_lately() -> None:
    scrapes = Scrapes()
    assert scrapes.gap_seconds(0.0) == HOLD_SECONDS, "nobody knows yet"
    scrapes.note("a", 1, 0.0)
    scrapes.note("b", 1, 7.0)
    assert scrapes.gap_seconds(8.0) == HOLD_SECONDS
    scrapes.note("a", 1, 15.0)
    scrapes.note("b", 2, 37.0)
    assert scrapes.gap_seconds(40.0) == 30.0
    scrapes.note("a", 2, 500.0)
    assert scrapes.gap_seconds(500.0) == HOLD_SECONDS
    scrapes.note("a", 3, 510.0)
    assert scrapes.gap_seconds(1105.0) == 10.0, "the others are too long ago"


def test_what_everybody_has_seen_who_comes_regularly() -> None:
    scrapes = Scrapes()
    assert scrapes.seen_by_all(0.0) == -1
    scrapes.note("a", 3, 10.0)
    scrapes.note("b", 5, 100.0)
    assert scrapes.seen_by_all(110.0) == 3
    assert scrapes.seen_by_all(131.0) == 5, "a is not waited for any more"
    assert scrapes.seen_by_all(300.0) == -1


def test_many_who_come_once_are_not_kept_for_ever() -> None:
    scrapes = Scrapes()
    for number in range(5000):
        scrapes.note(str(number), 1, float(number))
    assert len(scrapes._last) <= 1000  # noqa: SLF001
