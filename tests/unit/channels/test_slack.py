import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mainspring.channels.slack import MOST_HEADING, MOST_TEXT, write_slack
from mainspring.core.notifications import Message
from tests.unit.channels.messages import make_alert, make_message

TEXT = st.text(st.characters(codec="utf-8"), max_size=400) | st.text("@a](&< ", max_size=400)
MARKDOWN = re.compile(r"@\w|\]\(")
"""A mention, and the middle of a link, for Mattermost and Rocket.Chat."""
ESCAPED = re.compile(r"&(?!amp;|lt;|gt;)")


def texts_of(body: dict[str, Any]) -> list[str]:
    """Return the texts in which markup is read."""
    return [body["text"], body["blocks"][1]["text"]["text"]]


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=20), TEXT, st.integers(0, 10**6))
def test_no_name_and_no_error_becomes_markup_and_all_is_within_the_limits(
    alerts: list[tuple[str, str]], rule: str, more: int
) -> None:
    facts = [make_alert(n, subject=subject, summary=summary) for n, (subject, summary) in enumerate(alerts)]
    body = write_slack(make_message(*facts, rule=rule, more=more))
    assert 1 <= len(body["blocks"][0]["text"]["text"]) <= MOST_HEADING
    for text in texts_of(body):
        assert len(text) <= MOST_TEXT
        links = re.findall(r"<([^>]*)>", text)
        assert all(re.fullmatch(r"https://jobs\.example\.org/alerts/\d+\|open", link) for link in links)
        assert not ESCAPED.search(text)
        assert not MARKDOWN.search(text)
        described = text.count("\n• ") + text.startswith("• ")
        told = re.search(r"\n… and (\d+) more$", text)
        assert described + (int(told[1]) if told else 0) >= len(facts) + more


def test_mention_and_link_in_an_error_are_shown_as_they_are() -> None:
    alert = make_alert(summary="<!channel> & <https://evil.example|click>\nnext", url="https://x/a|b")
    body = write_slack(make_message(alert))
    line = texts_of(body)[1].splitlines()[1]
    assert line == (
        "• queue:mail: &lt;!channel&gt; &amp; &lt;https://evil.example|click&gt; next <https://x/a%7Cb|open>"
    )


def test_mention_and_link_of_markdown_are_broken_everywhere() -> None:
    alert = make_alert(
        subject="job:@all", summary="@channel [click](https://evil.example) ![x](https://e.org)"
    )
    body = write_slack(make_message(alert, rule="@here"))
    heading = body["blocks"][0]["text"]["text"]
    for text in (heading, *texts_of(body)):
        assert not MARKDOWN.search(text)
    assert "@\u200bhere" in heading
    assert (
        texts_of(body)[1]
        .splitlines()[1]
        .startswith(
            "• job:@\u200ball: @\u200bchannel [click]\u200b(https://evil.example) ![x]\u200b(https://e.org)"
        )
    )


def test_twenty_long_alerts_are_cut_at_a_line_and_counted() -> None:
    alerts = [make_alert(number, summary="&" * 300) for number in range(20)]
    message: Message = make_message(*alerts, more=5)
    text = texts_of(write_slack(message))[1]
    described = text.count("• ")
    assert 0 < described < 20
    assert text.endswith(f"\n… and {25 - described} more")
