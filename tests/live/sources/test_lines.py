"""Lines of CSV and JSON: any cutting gives the same steps, and nothing raises."""

import asyncio
import contextlib
import io
import itertools
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlat.live.core.steps import Steps
from mlat.live.sources import Arrival, Notice, Refusal, open_source
from mlat.live.sources.lines import LineParser

CHANNELS = ("ax", "ay", "az")
VALUES = st.one_of(st.just(float("nan")), st.floats(allow_nan=False, allow_infinity=False))
ROWS = st.lists(st.lists(VALUES, min_size=3, max_size=3), min_size=1, max_size=8)
SEQ = st.integers(-(2**63), 2**63 - 1)
TIME = st.floats(allow_nan=False, allow_infinity=False)


def parse(text, channels=CHANNELS, cuts=(), **options):
    """All that a parser makes of a text that is cut into blocks at these places."""
    parser = LineParser(channels, **options)
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    outcomes = []
    for start, stop in itertools.pairwise(edges):
        outcomes += parser.feed(text[start:stop])
    return outcomes + parser.finish()


def values(outcomes):
    return [row for o in outcomes if isinstance(o, Steps) for row in o.values.tolist()]


def numbers(outcomes):
    """The sequence number of every step, None where it has none."""
    steps = [o for o in outcomes if isinstance(o, Steps)]
    return [n for s in steps for n in ([None] * len(s) if s.seq is None else s.seq.tolist())]


def reasons(outcomes):
    return [o.reason for o in outcomes if isinstance(o, Refusal)]


def n_refused(outcomes):
    return sum(o.count for o in outcomes if isinstance(o, Refusal))


def written(value):
    return "" if np.isnan(value) else repr(value)


# --- what is read ------------------------------------------------------------------------------


@given(ROWS, st.permutations(range(5)), st.lists(SEQ, min_size=8), st.lists(TIME, min_size=8))
def test_csv_with_a_header_comes_back_exactly(rows, order, seq, time):
    names = [*CHANNELS, "seq", "time"]
    lines = [",".join(names[i] for i in order)]
    for row, number, at in zip(rows, seq, time, strict=False):
        fields = [*map(written, row), str(number), repr(at)]
        lines.append(",".join(fields[i] for i in order))
    [steps] = parse("\n".join([*lines, ""]).encode())
    np.testing.assert_array_equal(steps.values, rows)
    assert steps.seq.tolist() == seq[: len(rows)]
    assert steps.time.tolist() == time[: len(rows)]


@given(ROWS)
def test_csv_without_a_header_holds_the_channels_in_order(rows):
    text = "".join(",".join(map(written, row)) + "\r\n" for row in rows)
    [steps] = parse(text.encode())
    np.testing.assert_array_equal(steps.values, rows)
    assert steps.seq is None
    assert steps.time is None


@given(ROWS, st.sampled_from(["values", "names", "array"]), st.data())
def test_json_lines_come_back_exactly(rows, form, data):
    lines, seq = [], []
    for row in rows:
        sent = [None if np.isnan(v) else v for v in row]
        seq.append(data.draw(SEQ))
        if form == "values":
            lines.append(json.dumps({"seq": seq[-1], "values": sent, "more": "ignored"}))
        elif form == "names":
            named = list(zip(CHANNELS, sent, strict=True))
            lines.append(json.dumps({"seq": seq[-1], **dict(reversed(named))}))
        else:
            lines.append(json.dumps(sent))
    [steps] = parse("\n".join([*lines, ""]).encode())
    np.testing.assert_array_equal(steps.values, rows)
    assert (steps.seq is None) if form == "array" else (steps.seq.tolist() == seq)


PIECES = [b"1,2,3\n", b"1,,nan\n", b"ay,ax,az,seq\n", b"1,2\n", b"1,fast,3\n", b"\n", b"# c\n"]
PIECES += [b"[1,2,null]\n", b'{"ax":1,"ay":2,"az":3}\n', b"x" * 50 + b"\n", b"\xff\n", b"4,5,6,7\n"]


@given(st.lists(st.sampled_from(PIECES), max_size=8), st.lists(st.integers(0, 200), max_size=9))
def test_where_the_blocks_are_cut_does_not_matter(pieces, cuts):
    text = b"".join(pieces)
    whole = parse(text, max_line=40)
    cut = parse(text, cuts=cuts, max_line=40)
    assert repr(values(whole)) == repr(values(cut))
    assert n_refused(whole) == n_refused(cut)
    assert numbers(whole) == numbers(cut)


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=3))
def test_any_bytes_give_steps_or_refusals(text, cuts):
    for outcome in parse(text, cuts=cuts):
        assert isinstance(outcome, Steps | Refusal)
        if isinstance(outcome, Steps):
            assert outcome.values.shape[1] == 3
            assert not np.isinf(outcome.values).any()


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from([*CHANNELS, "values", "seq", "time"]), inner, max_size=6),
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_json_gives_steps_or_a_refusal(sent):
    for outcome in parse(b"[0,0,0]\n" + json.dumps(sent).encode())[1:]:
        assert isinstance(outcome, Steps | Refusal)


def test_a_second_header_maps_the_columns_anew():
    text = b"ax,ay,az\n1,2,3\naz,ay,ax\n6,5,4\n"
    assert values(parse(text)) == [[1, 2, 3], [4, 5, 6]]


def test_a_channel_called_time_is_a_channel():
    assert values(parse(b'{"time": 5, "seq": 1}', ("time",))) == [[5]]
    assert values(parse(b"seq,time\n1,5\n", ("time",))) == [[5]]


def test_quotes_tabs_comments_and_a_byte_order_mark():
    text = '\ufeff# a logger\n"az"\t"ay"\t"ax"\n3\t2\t1\n\n"6"\t5\t4\n'
    assert values(parse(text.encode())) == [[1, 2, 3], [4, 5, 6]]


# --- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1,2", "2 columns where the model has 3 channels"),
        ("1,2,3,4", "4 columns where the model has 3 channels"),
        ("1,fast,3", "channel 'ay' is 'fast', which is not a number; leave a missing value empty"),
        ("1,2,1e999", "channel 'az' is infinite; leave a missing value empty"),
        ("1,2,-inf", "channel 'az' is infinite; leave a missing value empty"),
        (
            "1,1_000,3",
            "channel 'ay' is '1_000', which is not a number; leave a missing value empty",
        ),
        ("1,٣,3", "channel 'ay' is '٣', which is not a number; leave a missing value empty"),
        ("[1,2,3]", "channel 'ax' is '[1', which is not a number; leave a missing value empty"),
    ],
)
def test_csv_says_what_is_wrong_and_where(line, reason):
    outcomes = parse(f"1,2,3\n{line}\n4,5,6\n".encode())
    assert [type(o) for o in outcomes] == [Steps, Refusal, Steps]
    assert outcomes[1] == Refusal(f"lines, line 2: {reason}", 1)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("[1,2]", "2 values where the model has 3 channels"),
        ("[1,2,NaN]", "NaN is not JSON; null marks a missing value"),
        ("[1,2,-Infinity]", "-Infinity is not JSON; null marks a missing value"),
        ("[1,2,1e999]", "channel 'az' is infinite; leave a missing value empty"),
        ('[1,2,"3"]', "channel 'az' is '3', which is not a number; null marks a missing value"),
        ("[1,2,true]", "channel 'az' is True, which is not a number; null marks a missing value"),
        ('{"ax":1}', "no channel 'ay', 'az'; null marks a missing value"),
        ('{"values":7}', "values must be an array of numbers, not 7"),
        ('{"values":[1,2,3],"seq":1.5}', "seq must be a whole number, not 1.5"),
        ('{"values":[1,2,3],"seq":true}', "seq must be a whole number, not True"),
        (
            '{"values":[1,2,3],"time":"2024-05-31"}',
            "time must be a number of seconds, not '2024-05-31'",
        ),
        (
            '{"values":[1,2,3],"seq":9223372036854775808}',
            "seq '9223372036854775808' does not fit into 64 bits",
        ),
        ("[1,2,3", "'[1,2,3' is not JSON (Expecting ',' delimiter at character 6)"),
        ("1,2,3", "'1,2,3' is not JSON (Extra data at character 1)"),
        ("[" * 100_000, f"{'[' * 38!r}"[:-1] + "… is not JSON (nested too deep)"),
        ("[1,2," + "9" * 5000 + "]", "'[1,2,9999"),
        ("[1,2," + "9" * 400 + "]", "a value is beyond the largest float; send numbers that fit"),
    ],
)
def test_json_says_what_is_wrong_and_where(line, reason):
    outcomes = parse(f"[1,2,3]\n{line}\n[4,5,6]\n".encode())
    assert [type(o) for o in outcomes] == [Steps, Refusal, Steps]
    assert outcomes[1].reason.startswith(f"lines, line 2: {reason}")
    assert len(outcomes[1].reason) < 200


def test_a_header_that_lacks_a_channel_refuses_what_follows_until_there_is_one():
    text = b"gx,gy,gz\n1,2,3\n4,5,6\nax,ay,az\n7,8,9\n"
    outcomes = parse(text)
    assert values(outcomes) == [[7, 8, 9]]
    assert n_refused(outcomes) == 3
    assert (
        "the header 'gx,gy,gz' lacks the model's channel 'ax', 'ay', 'az'" in reasons(outcomes)[0]
    )


def test_refusals_in_a_row_are_one_event_with_their_number():
    outcomes = parse(b"1,2,3\n" + b"1,2\n" * 100 + b"4,5,6\n")
    assert [o.count for o in outcomes if isinstance(o, Refusal)] == [100]
    assert reasons(outcomes)[0].endswith("(and 99 more after it)")


def test_a_line_without_end_is_refused_and_not_kept():
    parser = LineParser(CHANNELS, max_line=1000)
    parser.feed(b"1,2,3\n")
    for _ in range(1000):
        assert parser.feed(b"9" * 1000) == []
        assert len(parser._kept) <= 1000
    refusal, steps = parser.feed(b"9\n4,5,6\n")
    assert refusal == Refusal("lines, line 2: longer than 1000 bytes; break it into lines")
    assert steps.values.tolist() == [[4, 5, 6]]


# --- the source --------------------------------------------------------------------------------


async def collect(source, channels=CHANNELS):
    await source.open(channels)
    return [event async for event in source.events()]


@pytest.mark.parametrize("make", [io.BytesIO, lambda b: io.StringIO(b.decode())])
def test_any_file_object_is_read_to_its_end(make):
    events = asyncio.run(collect(open_source("-", file=make(b"1,2,3\n4,5,6"))))
    assert [e.steps.values.tolist() for e in events[:-1]] == [[[1, 2, 3]], [[4, 5, 6]]]
    assert events[-1] == Notice("ended", "lines ended")


def test_a_plain_file_is_read_to_its_end():
    with tempfile.TemporaryFile() as file:
        file.write(b"".join(b"%d,2,3\n" % i for i in range(50_000)))
        file.seek(0)
        events = asyncio.run(collect(open_source("-", file=file)))
    steps = np.concatenate([e.steps.values for e in events if isinstance(e, Arrival)])
    np.testing.assert_array_equal(steps[:, 0], np.arange(50_000))


STDIN = """
import asyncio, sys
from mlat.live.sources import Arrival, open_source

async def main():
    source = open_source("-")
    await source.open(("ax", "ay"))
    async for event in source.events():
        if isinstance(event, Arrival):
            print("steps", *event.steps.values[:, 0].tolist(), flush=True)
        else:
            print(event, flush=True)

asyncio.run(main())
"""


def test_standard_input_through_a_real_pipe():
    with subprocess.Popen(
        [sys.executable, "-c", STDIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        said = []
        # Each line is answered before the next is written: nothing waits for a block to fill.
        for line in ["ay,ax\n0,1\n", "0,2\n", "0,fast\n", "0,3\n0,4\n", "0,5"]:
            child.stdin.write(line)
            child.stdin.flush()
            if line.endswith("\n"):
                said.append(child.stdout.readline().strip())
        rest, _ = child.communicate(timeout=30)
    assert said[0] == "steps 1.0"
    assert said[1] == "steps 2.0"
    assert "standard input, line 4: channel 'ax' is 'fast'" in said[2]
    assert said[3] == "steps 3.0 4.0"
    assert rest.splitlines() == [
        "steps 5.0",
        "Notice(kind='ended', text='standard input ended')",
    ]
    assert child.returncode == 0


def fill(pipe, number):
    """Write numbered lines until the pipe takes no more; the number of the next."""
    with contextlib.suppress(BlockingIOError):
        while number < 1_000_000:
            os.write(pipe, b"%09d,0,0\n" % number)
            number += 1
    assert number < 1_000_000
    return number


def test_much_at_once_comes_in_few_batches_and_a_slow_consumer_stops_the_writer():
    async def run():
        read, write = os.pipe()
        os.set_blocking(write, False)
        with open(read, "rb") as file:
            source = open_source("-", file=file)
            await source.open(CHANNELS)
            sent = fill(write, 0)
            events = source.events()
            first = await anext(events)
            assert len(first.steps) > 1000
            sent = fill(write, sent)  # which ends: what is not asked for is not read
            # Nor watched meanwhile, or it would keep the loop awake.
            assert not asyncio.get_running_loop().remove_reader(read)
            os.close(write)
            arrivals = [first, *[e async for e in events if isinstance(e, Arrival)]]
        steps = np.concatenate([a.steps.values[:, 0] for a in arrivals])
        np.testing.assert_array_equal(steps, np.arange(sent))
        assert len(arrivals) < 20

    asyncio.run(run())


def test_closing_ends_the_wait_for_a_line():
    async def run():
        read, write = os.pipe()
        with open(read, "rb") as file:
            source = open_source("-", file=file)
            await source.open(CHANNELS)
            waiting = asyncio.create_task(anext(source.events(), "ended"))
            await asyncio.sleep(0)
            await source.close()
            assert await asyncio.wait_for(waiting, 5) == "ended"
        os.close(write)

    asyncio.run(run())
