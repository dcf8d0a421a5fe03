"""What a session prints."""

from __future__ import annotations

import json
import logging
import math

import pytest

from live_oracles import columns
from mlat.live import Prediction
from mlat.live.run.output import Notices, csv_lines, json_lines, log_lines


def test_lines_of_both_forms():
    nan = float("nan")
    known = Prediction(3, "walk, fast", 0.5, 1.25, (4, 2), "", 7, 0.5, (0.5, 0.5), 0.75)
    unknown = Prediction(4, "", nan, nan, (), "missing", None, None, (), nan)
    assert json_lines(columns([known, unknown])) == (
        '{"step": 3, "state": "walk, fast", "proba": 0.5, "distance": 1.25, "why": "", '
        '"neighbours": [4, 2], "seq": 7, "time": 0.5, "agreement": 0.75}\n'
        '{"step": 4, "state": "", "proba": null, "distance": null, "why": "missing", '
        '"neighbours": [], "seq": null, "time": null, "agreement": null}\n'
    )
    assert csv_lines(columns([known, unknown])) == (
        '3,"walk, fast",0.5,1.25,,4 2,7,0.5,0.75\n4,,,,missing,,,,\n'
    )


def test_of_many_refusals_a_few_are_said(capsys):
    now = [0.0]
    notices = Notices(clock=lambda: now[0], at_once=2)
    for i in range(5):
        notices.refused(f"no number in line {i}", 2)
    notices.notice("retrying", "another kind\nof line")
    now[0] = 1.5
    notices.refused("no number")
    notices.refused("no number")
    assert capsys.readouterr().err == (
        "mlat: refused 2 times: no number in line 0\n"
        "mlat: refused 2 times: no number in line 1\n"
        "mlat: another kind of line\n"
        "mlat: refused: no number (and 6 more since the last such line)\n"
    )
    assert notices.n_refused == 12


def test_what_is_not_finite_is_null():
    """JSON has neither NaN nor infinity; a reader of ours must be able to read every line."""
    infinite = Prediction(0, "walk", math.nan, math.inf, (), "", None, -math.inf, ())
    line = json_lines(columns([infinite]))
    fields = json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert (fields["proba"], fields["distance"], fields["time"]) == (None, None, None)
    assert csv_lines(columns([infinite])) == "0,walk,,,,,,,1.0\n"


def test_what_libraries_log_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    logger = logging.getLogger("a.library")
    with log_lines(Notices(at_once=2)):
        try:
            raise OSError("the peer is\ngone")
        except OSError:
            logger.exception("it failed\nbadly")
        logger.warning("again")
        logger.error("too often")
        logger.info("not said")
    assert capsys.readouterr().err == (
        "mlat: a.library: it failed (OSError: the peer is gone)\nmlat: a.library: again\n"
    )
    assert logging.getLogger().handlers == []


def test_logging_that_a_program_has_set_up_is_left_alone(monkeypatch, capsys):
    own = logging.NullHandler()
    monkeypatch.setattr(logging.getLogger(), "handlers", [own])
    with log_lines(Notices()):
        logging.getLogger("a.library").warning("said elsewhere")
        assert logging.getLogger().handlers == [own]
    assert capsys.readouterr().err == ""
