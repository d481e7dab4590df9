"""Which zone the machine says it is in."""

from pathlib import Path

import pytest

from mainspring.cli.machine import machine_zone


def test_the_link_of_the_machine_names_its_zone(tmp_path: Path) -> None:
    (tmp_path / "timezone").write_text("Asia/Tokyo\n")
    (tmp_path / "localtime").symlink_to("../usr/share/zoneinfo/Europe/Berlin")
    assert machine_zone(tmp_path) == "Europe/Berlin"


def test_a_copy_has_no_name_so_the_other_file_says_it(tmp_path: Path) -> None:
    (tmp_path / "localtime").write_bytes(b"TZif")
    assert machine_zone(tmp_path) is None
    (tmp_path / "timezone").write_text("Asia/Tokyo\n")
    assert machine_zone(tmp_path) == "Asia/Tokyo"


@pytest.mark.parametrize("name", ["", "Mars/Base", "../../etc/passwd", "CET-1CEST", "\0"])
def test_what_is_no_zone_is_not_taken(tmp_path: Path, name: str) -> None:
    (tmp_path / "localtime").write_bytes(b"TZif")
    (tmp_path / "timezone").write_text(name)
    assert machine_zone(tmp_path) is None


def test_a_machine_without_a_zone_is_in_utc(tmp_path: Path) -> None:
    assert machine_zone(tmp_path) == "UTC"
