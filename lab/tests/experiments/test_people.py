"""Whom a name means."""

from mlat_lab.cli.reproduce import QUICK_PEOPLE
from mlat_lab.experiments.people import uci_people


def test_people_are_named_with_or_without_their_set(tmp_path, monkeypatch):
    monkeypatch.setattr("mlat_lab.experiments.people.open_set", lambda uci, data: _Nothing())
    people = uci_people(["emg", "vicon"], ["sub2", "vicon:3"])
    assert {name: p.names for name, p in people.items()} == {
        "emg": ("sub2",),
        "vicon": ("sub2", "sub3"),
    }
    quick = uci_people(None, QUICK_PEOPLE)
    assert list(quick) == ["scma", "arem", "emg", "vicon"]
    assert uci_people(["arem"])["arem"].given is None


class _Nothing:
    def __exit__(self, *_):
        return None
