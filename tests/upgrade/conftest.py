"""The versions that are run beside each other, made once."""

import pytest

from tests.upgrade.versions import (
    Version,
    extract_previous,
    make_successor,
    oldest_that_works,
    unpack_baseline,
    unpack_release_before,
)


@pytest.fixture(scope="session", params=["baseline", "previous"])
def older(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Version:
    """A version before the one under test."""
    folder = tmp_path_factory.mktemp(request.param)
    return unpack_baseline(folder) if request.param == "baseline" else extract_previous(folder)


@pytest.fixture(scope="session")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Version:
    """The oldest version that today's promises hold for."""
    return unpack_baseline(tmp_path_factory.mktemp("baseline"))


@pytest.fixture(scope="session")
def release_before(tmp_path_factory: pytest.TempPathFactory) -> Version:
    """The last release: its data is brought along, its programs cannot work on today's schema."""
    return unpack_release_before(tmp_path_factory.mktemp("before"))


@pytest.fixture(scope="session")
def successor(tmp_path_factory: pytest.TempPathFactory) -> Version:
    """The next version; its schema is newer, and older programs agree with it."""
    return make_successor(tmp_path_factory.mktemp("successor"), compatible_from=oldest_that_works())


@pytest.fixture(scope="session")
def breaking(tmp_path_factory: pytest.TempPathFactory) -> Version:
    """A next version whose schema older programs do not agree with."""
    return make_successor(tmp_path_factory.mktemp("breaking"), compatible_from=None)
