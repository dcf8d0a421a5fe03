"""The texts that name a source."""

import pytest

from mlat import InputError
from mlat.live.sources import open_source


@pytest.mark.parametrize("spec", ["", "udp:1", "mqtt", "http://x", "replay:", "lsl:", "replay:@2x"])
def test_a_bad_spec_is_one_line(spec):
    with pytest.raises(InputError) as raised:
        open_source(spec)
    assert "\n" not in str(raised.value)


def test_an_unknown_kind_is_answered_with_the_known_ones():
    with pytest.raises(InputError) as raised:
        open_source("udp:secret")
    assert str(raised.value) == (
        "source 'udp' is not known; give - for lines on standard input, replay:FILE[@rate], "
        "mqtt://host[:port]/topic or lsl:NAME"
    )
