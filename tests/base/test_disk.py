from __future__ import annotations

import os
import stat

import pytest

from mlat.base.disk import atomic_write, disk_errors
from mlat.base.errors import DiskError, InputError


def test_the_file_appears_when_the_block_ends(tmp_path):
    target = tmp_path / "model.csv.gz"
    with atomic_write(target) as temporary:
        assert temporary.parent == tmp_path
        assert temporary.name.endswith(".csv.gz")
        temporary.write_text("new")
        assert not target.exists()
    assert target.read_text() == "new"
    assert os.listdir(tmp_path) == ["model.csv.gz"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_error_leaves_everything_as_it_was(tmp_path, error):
    target = tmp_path / "model"
    target.write_text("old")

    def write_half():
        with atomic_write(target) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(error):
        write_half()
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["model"]


def test_an_error_after_the_temporary_file_has_gone_is_the_error_that_shows(tmp_path):
    def lose():
        with atomic_write(tmp_path / "model") as temporary:
            temporary.unlink()
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        lose()


def test_the_permissions_are_those_of_any_file_or_of_the_one_replaced(tmp_path):
    plain, fresh, kept = (tmp_path / name for name in ("plain", "fresh", "kept"))
    plain.write_text("")
    kept.write_text("")
    kept.chmod(0o640)
    for target in (fresh, kept):
        with atomic_write(target) as temporary:
            temporary.write_text("")
    assert stat.S_IMODE(fresh.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640


def test_a_link_stays_a_link(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    link.symlink_to(real)
    with atomic_write(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def refuse(path, message, error=InputError):
    with pytest.raises(error, match=message), atomic_write(path):
        pytest.fail("the block must not run")


def test_places_that_cannot_be_written_to(tmp_path, monkeypatch):
    refuse(tmp_path, "is a folder")
    refuse(tmp_path / "nowhere" / "model", "there is no folder")
    (tmp_path / "file").write_text("")
    refuse(tmp_path / "file" / "model", "there is no folder")
    os.mkfifo(tmp_path / "pipe")
    refuse(tmp_path / "pipe", "not an ordinary file")

    def forbid(*_args):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", forbid)  # the superuser may write anywhere
    refuse(tmp_path / "model", "Permission denied", DiskError)


def test_an_error_of_the_disk_names_the_place(tmp_path):
    message = r"here cannot be read or written \(full\); free some"
    with pytest.raises(DiskError, match=message), disk_errors(tmp_path / "here", "free some space"):
        raise OSError("full")
