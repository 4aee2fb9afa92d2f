"""Cron expressions: cron's five fields and KFP's six are told apart, and what would surprise is refused."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.cron import parse_cron, spoken
from components.shared.errors import UserError

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)  # a Sunday


@pytest.mark.parametrize(
    ("text", "fields", "words", "first"),
    [
        ("0 3 * * *", "0 0 3 * * *", "At 03:00 every day", datetime(2026, 11, 30, 3, 0, tzinfo=UTC)),
        ("0 0 3 * * *", "0 0 3 * * *", "At 03:00 every day", datetime(2026, 11, 30, 3, 0, tzinfo=UTC)),
        ("15 0 3 * * ?", "15 0 3 * * *", "At 03:00:15 every day", datetime(2026, 11, 30, 3, 0, 15, tzinfo=UTC)),
        (
            "30 6 * * 1-5",
            "0 30 6 * * 1-5",
            "At 06:30 on Monday through Friday",
            datetime(2026, 11, 30, 6, 30, tzinfo=UTC),
        ),
        ("0 3 * * sun", "0 0 3 * * sun", "At 03:00 on Sunday", datetime(2026, 12, 6, 3, 0, tzinfo=UTC)),
        ("0 0 29 2 *", "0 0 0 29 2 *", "At 00:00 on February 29", datetime(2028, 2, 29, tzinfo=UTC)),
    ],
)
def test_what_it_means(text, fields, words, first):
    cron = parse_cron(text, NOW)
    assert (cron.fields, cron.words) == (fields, words)
    assert cron.times[0] == first
    assert len(cron.times) == 3
    assert list(cron.times) == sorted(set(cron.times))


def test_five_fields_mean_in_kfp_what_they_mean_in_cron():
    """KFP would read these as: at second 0, minute 3 of every hour."""
    assert [moment.hour for moment in parse_cron("0 3 * * *", NOW).times] == [3, 3, 3]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 3 * *", "has 4 fields"),
        ("@daily", "has 1 fields"),
        ("0 0 0 3 * * *", "has 7 fields"),
        ("61 3 * * *", "is no cron expression"),
        ("0 3 L * *", "does not know 'L'"),
        ("0 3 * * 1#2", "does not know '1#2'"),
        ("0 3 * * 7", "write 0 or SUN"),
        ("0 3 1 * 1", "a schedule for each"),
        ("* 0 3 * * *", "more than one run a minute"),
        ("*/5 * 3 * * *", "more than one run a minute"),
        ("0 3 31 2 *", "--cron '0 3 31 2 *'"),
    ],
)
def test_what_is_refused(text, words):
    with pytest.raises(UserError) as refused:
        parse_cron(text, NOW)
    assert words in str(refused.value)
    assert str(refused.value).endswith(".")


@given(minute=st.integers(0, 59), hour=st.integers(0, 23), weekday=st.integers(0, 6))
def test_five_fields_and_the_six_made_of_them_fire_alike(minute, hour, weekday):
    five = parse_cron(f"{minute} {hour} * * {weekday}", NOW)
    six = parse_cron(five.fields, NOW)
    assert (five.times, five.words) == (six.times, six.words)
    assert {(moment.minute, moment.hour, moment.isoweekday() % 7) for moment in five.times} == {(minute, hour, weekday)}


def test_what_kfp_holds_is_told_in_its_own_reading():
    assert spoken("0 0 3 * * *") == "At 03:00 every day"
    assert spoken("0 3 * * *") == "At minute 3 of every hour"  # made elsewhere, with five fields
    assert spoken("@daily") == "@daily"
