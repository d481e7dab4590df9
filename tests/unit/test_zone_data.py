import re
import zoneinfo
from importlib.metadata import version
from pathlib import Path

import pytest

from mainspring import zone_data


def test_tzdata_version_is_the_systems_where_it_has_zones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tzdata.zi").write_text("# version 2031c\n# more\n")
    monkeypatch.setattr(zoneinfo, "TZPATH", ("/nowhere", str(tmp_path)))
    assert zone_data.tzdata_version() == "2031c"


def test_tzdata_version_of_a_system_that_does_not_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "UTC").write_bytes(b"TZif2\n")
    monkeypatch.setattr(zoneinfo, "TZPATH", (str(tmp_path),))
    assert zone_data.tzdata_version() == "system"
    (tmp_path / "+VERSION").write_text("2030a\n")
    assert zone_data.tzdata_version() == "2030a"


def test_tzdata_version_is_the_packages_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoneinfo, "TZPATH", ())
    found = zone_data.tzdata_version()
    assert re.fullmatch(r"20\d\d[a-z]", found)
    year, number = version("tzdata").split(".")[:2]
    assert found == year + "abcdefghijklmnopqrstuvwxyz"[int(number) - 1]
