import pytest

from mainspring.core.vault import (
    Mount,
    TokenLease,
    TokenLogin,
    VaultPlace,
    keep_problem,
    pause_after,
    place_of,
    read_place,
)
from mainspring.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("secret/reports#token", VaultPlace("secret/reports", "token")),
        ("teams/a/b/c#x y", VaultPlace("teams/a/b/c", "x y")),
        ("secret/größe#a#b", VaultPlace("secret/größe", "a#b")),
    ],
)
def test_places_have_a_path_and_a_field(text: str, found: VaultPlace) -> None:
    assert read_place(text, "a") == found
    assert place_of(f"vault:{text}") == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hunter2", "#FIELD is missing"),
        ("secret/hunter2", "#FIELD is missing"),
        ("secret/hunter2#", "#FIELD is missing"),
        ("hunter2#token", "the path in the mount is missing"),
        ("#hunter2", "a part of the path is empty"),
        ("/secret/hunter2#token", "a part of the path is empty"),
        ("secret//hunter2#token", "a part of the path is empty"),
        ("secret/hunter2/#token", "a part of the path is empty"),
        ("secret/../hunter2#token", "a part of the path is empty, or . or .."),
        ("secret/./hunter2#token", "a part of the path is empty, or . or .."),
        (" secret/hunter2#token", "it has a blank at an end"),
        ("secret/hunter2# token", "it has a blank at an end"),
        ("secret/hunter2\n#token", "what cannot be printed"),
        (f"secret/{'x' * 1100}#hunter2", "it is longer than 1024 with 200 characters"),
        (f"secret/hunter2#{'x' * 201}", "it is longer than 1024 with 200 characters"),
    ],
)
def test_wrong_places_are_told_without_what_may_be_a_secret(text: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_place(text, "'a'")
    assert refused.value.message.startswith("has a wrong from: ")
    assert said in refused.value.message
    assert '"vault:MOUNT/PATH#FIELD", like "vault:secret/reports#token"' in refused.value.message
    assert "hunter2" not in str(refused.value)


def test_other_sources_are_not_in_vault() -> None:
    assert place_of("env:VAULT") is None
    assert place_of("file:/vault:x/y#z") is None


def test_the_api_has_version_2_below_data() -> None:
    assert Mount("teams/shop/", 2).place("teams/shop/mail") == "teams/shop/data/mail"
    assert Mount("old/", 1).place("old/mail") == "old/mail"


def test_a_lease_is_due_before_it_is_over() -> None:
    lease = TokenLease(token="t", since=100.0, lasts=60.0, is_renewable=True, is_own=True)
    assert [lease.is_due(at) for at in (139.9, 140.0)] == [False, True]
    assert [lease.is_over(at) for at in (159.9, 160.0)] == [False, True]
    assert (lease.due_in(110.0), lease.due_in(150.0)) == (30.0, 0.0)
    endless = TokenLease(token="t", since=100.0, lasts=None, is_renewable=False, is_own=False)
    assert (endless.is_due(1e9), endless.is_over(1e9), endless.due_in(0.0)) == (False, False, None)


def test_tokens_are_not_shown() -> None:
    assert "hunter2" not in repr(
        TokenLease(token="hunter2", since=0, lasts=1, is_renewable=True, is_own=True)
    )
    assert "hunter2" not in repr(TokenLogin(token="hunter2"))


def test_pauses_grow_up_to_the_usual_one() -> None:
    assert [pause_after(failures, 60.0) for failures in (0, 1, 2, 3, 6, 7, 100)] == [60, 1, 2, 4, 32, 60, 60]


def test_what_was_read_counts_for_a_time() -> None:
    assert keep_problem(60.0, 60.0, "sealed") is None
    assert (
        keep_problem(61.0, 60.0, "sealed") == "it was last read 61 s ago, over vault.keep; since then: sealed"
    )
