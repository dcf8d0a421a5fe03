"""Cells of the tables."""

from mlat_lab.reports.page import signed


def test_points_have_a_sign_unless_they_round_to_nothing():
    assert [signed(x) for x in (1.26, -0.04, 0.0, -3)] == ["+1.3", "0.0", "0.0", "-3.0"]
