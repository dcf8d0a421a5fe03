import pytest

from live_models import fitted
from mlat import InputError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"missing": "guess"}, '"abstain", "hold" or "reject", not \'guess\''),
        ({"hold": 0}, "hold must be a whole number of at least 1"),
        ({"reorder": 3}, "reorder needs order_by"),
        ({"reorder": True}, "reorder must be"),
        ({"far": -1.0}, "far must be a number above 0 or None"),
        ({"rate": "fast"}, "rate must be"),
        ({"filtered": 1}, "filtered must be"),
        ({"speed": 1}, "no option speed; the options are missing, hold"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(InputError, match=message):
        fitted("euclidean").live(**options)
