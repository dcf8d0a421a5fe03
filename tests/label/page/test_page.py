"""The labelling page in a real browser: drag, keys, proposals, two tabs, reload, kill."""

import os
import signal
import time
import wave
from contextlib import ExitStack

import numpy as np
import pytest

import mlat
from cli_runs import write_csv
from label_server import RUN, STATES, Labelling, started, states_stream, unlabelled
from mlat.label.label_table import Span, read_spans, write_spans
from mlat.label.recording import Recording
from page_server import CHROMIUM, chromium

pytest.importorskip("playwright", reason="playwright drives the browser; it is not installed")
if CHROMIUM is None:
    pytest.skip("no Chromium is installed to show the page", allow_module_level=True)

STREAM = states_stream()
HOSTILE = "<img src=x onerror=\"document.title='hit'\">"


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture
def labelling(tmp_path):
    """Serve recordings; closed after the pages that look at them."""
    with ExitStack() as stack:
        yield lambda *given, **more: stack.enter_context(Labelling(tmp_path, [*given], **more))


@pytest.fixture
def served(labelling):
    return labelling(unlabelled(STREAM))


@pytest.fixture
def visit(browser):
    """Open a page of a server; anything it complains of fails the test."""
    contexts, complaints = [], []

    def opened(url, **options):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else 0)
        page.on("response", lambda got: complaints.append(got.url) if got.status >= 400 else 0)
        page.complaints = complaints
        page.goto(url)
        ready(page)
        return page

    yield opened
    for context in contexts:
        context.close()
    # The server may have ended before its page: then the browser says that nobody was there.
    assert not [words for words in complaints if "ERR_CONNECTION_REFUSED" not in words]


def until(page, true, seconds=60):
    end = time.monotonic() + seconds
    while not page.evaluate(true):
        assert time.monotonic() < end, f"never came true: {true}"
        page.wait_for_timeout(20)


def ready(page):
    until(page, "globalThis.mlatLabel?.page.ready && mlatLabel.chart.whole")


def shown(page):
    return [tuple(span) for span in page.evaluate("mlatLabel.page.spans[mlatLabel.page.number]")]


def shows(page, *spans):
    wanted = [list(span) for span in spans]
    end = time.monotonic() + 60
    while [list(span) for span in shown(page)] != wanted:
        assert time.monotonic() < end, (shown(page), wanted)
        page.wait_for_timeout(20)


def table_of(served):
    with served.session.lock:  # until the edit is done; the log has it before a page shows it
        pass
    return read_spans(served.session.table)


def on_disk(served):
    return [tuple(span[:3]) for span in table_of(served)]


def drag(page, start, end):
    """From one step to another, where the whole view is shown."""
    box = page.locator("#signal .u-over").bounding_box()
    begin, length = page.evaluate("[mlatLabel.page.view.begin, mlatLabel.page.view.length]")
    y = box["y"] + box["height"] / 2

    def x(step):
        return box["x"] + (step - begin) / length * box["width"]

    page.mouse.move(x(start), y)
    page.mouse.down()
    page.mouse.move(x((start + end) / 2), y)
    page.mouse.move(x(end), y)
    page.mouse.up()


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def name(page, state):
    press(page, "t")
    page.keyboard.type(state)
    press(page, "Enter")


def test_drag_and_keys_label_and_every_edit_is_on_disk(served, visit):
    page = visit(served.url)
    assert "Drag over" in page.locator("#guide").text_content()
    drag(page, 100, 250)
    page.keyboard.type("walk")  # the first drag goes to the field by itself
    press(page, "Enter")
    until(page, "mlatLabel.page.spans[0].length === 1")
    (start, end, state) = shown(page)[0]
    assert abs(start - 100) <= 4
    assert abs(end - 250) <= 4
    assert state == "walk"
    assert on_disk(served) == shown(page)
    drag(page, 400, 500)
    name(page, HOSTILE)
    until(page, "mlatLabel.page.spans[0].length === 2")
    assert shown(page)[1][2] == HOSTILE
    assert page.locator("#states img").count() == 0
    assert page.title() == "mlat label"
    drag(page, 420, 480)  # a key of a state relabels, and cuts what was there
    press(page, "1")
    until(page, "mlatLabel.page.spans[0].length === 4")
    assert on_disk(served) == shown(page)
    three = shown(page)
    for _ in range(3):
        press(page, "Control+z")
    shows(page)
    assert on_disk(served) == []
    for _ in range(3):
        press(page, "Shift+Z")
    shows(page, *three)
    assert page.locator("#undo").is_enabled()
    assert page.locator("#redo").is_disabled()
    until(page, "document.querySelector('#saved').dataset.kind === 'saved'")
    page.reload()
    ready(page)
    shows(page, *three)
    press(page, "z")
    until(page, "mlatLabel.page.spans[0].length === 2")


def test_the_keyboard_alone_is_enough(served, visit):
    page = visit(served.url)
    page.locator("#signal").focus()
    press(page, "Home", "ArrowUp", "ArrowUp", "ArrowUp")
    assert page.evaluate("mlatLabel.page.view.length") == len(STREAM) / 8
    press(page, "ArrowRight", *["Shift+ArrowRight"] * 20)
    name(page, "walk")
    until(page, "mlatLabel.page.spans[0].length === 1")
    span = shown(page)[0]
    press(page, "Home", "]")
    assert page.evaluate("mlatLabel.page.selection") == list(span[:2])
    press(page, "Escape", "ArrowRight", "ArrowRight", "ArrowRight", "s")
    until(page, "mlatLabel.page.spans[0].length === 2")
    cut = shown(page)[1][0]
    assert span[0] < cut < span[1]
    press(page, "j")
    shows(page, span)
    press(page, "ArrowLeft", "ArrowLeft", "e")  # the nearest edge is the start
    until(page, f"mlatLabel.page.spans[0][0][0] !== {span[0]}")
    assert shown(page)[0][1] == span[1]
    press(page, "Alt+ArrowRight", "Delete")
    shows(page)
    press(page, "z", "z", "z", "z")
    until(page, "mlatLabel.page.version === 9")  # five edits, four of them undone
    shows(page, span)
    assert on_disk(served) == [span]
    press(page, "?")
    assert page.locator("#help").is_visible()
    press(page, "Escape")
    press(page, "0")
    assert page.evaluate("mlatLabel.page.view.length") == len(STREAM)


def test_edges_move_by_dragging_and_stop_at_the_next_span(served, visit):
    served.session.label(0, 100, 200, "walk")
    served.session.label(0, 300, 400, "run")
    page = visit(served.url)
    shows(page, (100, 200, "walk"), (300, 400, "run"))
    box = page.locator("#labels").bounding_box()

    def x(step):
        return box["x"] + step / len(STREAM) * box["width"]

    y = box["y"] + 10
    page.mouse.move(x(200), y)
    page.mouse.down()
    page.mouse.move(x(260), y)
    page.mouse.move(x(350), y)
    page.mouse.up()
    shows(page, (100, 300, "walk"), (300, 400, "run"))


def test_a_selection_takes_all_its_proposals_and_says_how_many(labelling, visit):
    served = labelling(unlabelled(states_stream(20)))  # sixty runs
    for i, state in enumerate(STATES):
        served.session.label(0, i * RUN + 60, i * RUN + 240, state)
    page = visit(served.url)
    until(page, "mlatLabel.page.proposals[0].length > 45")
    page.evaluate("mlatLabel.page.selection = [100, 60 * 300 - 100]")
    shown_then = page.evaluate("mlatLabel.page.proposals[0]")
    press(page, "Enter")
    until(page, "document.querySelector('#announcer').textContent.startsWith('Took ')")
    n = int(page.locator("#announcer").text_content().split()[1])
    assert len(shown_then) - 3 <= n <= len(shown_then)
    steps = {t for start, end, _, _ in shown_then for t in range(max(start, 100), end)}
    labelled = {t for start, end, _ in shown(page) for t in range(start, end)}
    assert {t for t in steps if t < 60 * RUN - 100} <= labelled


def test_what_can_be_taken_is_counted_without_what_has_a_label(served, visit):
    page = visit(served.url)
    for k in range(6):
        served.session.label(0, RUN * k + 20, RUN * k + 280, STATES[k % 3])
    learned(served)
    page.locator("#confidence").fill("50")
    until(page, "parseFloat(document.querySelector('#proposals-about').textContent) > 10")
    empty = len(STREAM) - 6 * 260
    offered = float(page.locator("#proposals-about").text_content().split()[0])
    assert offered <= empty / 50 + 0.5  # in seconds


def test_it_proposes_the_rest_and_hand_labels_stay(served, visit, tmp_path):
    page = visit(served.url)
    drag(page, 60, 240)
    page.keyboard.type("walk")
    press(page, "Enter")
    until(page, "mlatLabel.page.spans[0].length === 1")
    drag(page, RUN + 60, RUN + 240)
    name(page, "run")
    until(page, "mlatLabel.page.proposals[0].length > 1")
    drag(page, 2 * RUN + 60, 2 * RUN + 240)
    name(page, "sit")
    until(page, "mlatLabel.page.spans[0].length === 3")
    until(page, "mlatLabel.page.current && document.querySelector('#learning').hidden", 120)
    by_hand = shown(page)
    found = page.evaluate("mlatLabel.page.proposals[0]")
    right = sum((STREAM.states[start:end] == state).sum() for start, end, state, _ in found)
    assert right > 0.85 * len(STREAM)
    # One by a key, where the cursor is.
    box = page.locator("#proposals").bounding_box()
    page.mouse.click(box["x"] + 4.5 / 9 * box["width"], box["y"] + 8)
    selected = page.evaluate("mlatLabel.page.selection")
    press(page, "Enter")
    until(page, "mlatLabel.page.spans[0].length === 4")
    taken = [span for span in shown(page) if span not in by_hand]
    assert [list(taken[0][:2])] == [selected]
    # And all of enough confidence.
    page.locator("#confidence").fill("50")
    until(page, "!document.querySelector('#take-all').disabled")
    press(page, "a")
    until(page, "mlatLabel.page.spans[0].length > 5")
    assert [span for span in by_hand if span in shown(page)] == by_hand
    assert on_disk(served) == shown(page)
    press(page, "z")
    until(page, "mlatLabel.page.spans[0].length === 4")
    press(page, "n")
    until(page, "document.querySelector('#why').textContent.length > 12")
    start, end = page.evaluate("mlatLabel.page.selection")
    assert not any(a < end and start < b for a, b, _ in shown(page))
    press(page, "m")
    until(page, "document.querySelector('#model-said').textContent.startsWith('Saved')", 120)
    model = mlat.load(tmp_path / "walk.mlat")
    assert set(model.classes_) == set(STATES)
    assert model.score(states_stream(seed=1)) > 0.85


def test_two_tabs_show_the_same(served, visit):
    one, two = visit(served.url), visit(served.url)
    drag(one, 100, 250)
    one.keyboard.type("walk")
    press(one, "Enter")
    until(two, "mlatLabel.page.spans[0].length === 1")
    drag(two, 500, 700)
    press(two, "t")
    two.keyboard.type("run")
    press(two, "Enter")
    until(one, "mlatLabel.page.spans[0].length === 2")
    press(one, "z")
    until(two, "mlatLabel.page.spans[0].length === 1")
    press(two, "z")
    shows(one)
    shows(two)
    press(one, "Shift+Z", "Shift+Z")
    until(two, "mlatLabel.page.spans[0].length === 2")
    assert shown(one) == shown(two) == on_disk(served)


def test_a_page_that_was_cut_off_comes_back_with_what_others_did(served, visit):
    page = visit(served.url)
    served.stop()
    page.wait_for_selector('#saved[data-kind="waiting"]')
    drag(page, 100, 200)
    page.keyboard.type("walk")
    press(page, "Enter")
    until(page, "!document.querySelector('#notice').hidden")
    assert "nothing was changed" in page.locator("#notice").text_content()
    served.start(served.port)
    served.session.label(0, 10, 20, "sit")
    page.wait_for_selector('#saved[data-kind="saved"]')
    shows(page, (10, 20, "sit"))
    page.complaints.clear()  # a browser says itself that nobody was there


def test_several_recordings_in_turn(labelling, visit, tmp_path):
    both = [unlabelled(STREAM, "a.csv"), unlabelled(states_stream(2, seed=1), "b.csv")]
    served = labelling(*both)
    page = visit(served.url)
    press(page, "r")
    assert page.evaluate("mlatLabel.page.number") == 1
    until(page, "mlatLabel.chart.whole")
    drag(page, 100, 200)
    page.keyboard.type("walk")
    press(page, "Enter")
    until(page, "mlatLabel.page.spans[1].length === 1")
    assert [(s.recording, s.state) for s in table_of(served)] == [("b.csv", "walk")]


def test_ten_thousand_states_of_a_file_open(labelling, visit, tmp_path):
    stream = mlat.Stream(np.random.default_rng(0).normal(size=(20_000, 2)), channels=["x", "y"])
    spans = [Span(2 * i, 2 * i + 2, f"<b>{i}</b>") for i in range(10_000)]
    write_spans(tmp_path / "walk.labels.csv", spans)
    served = labelling(unlabelled(stream))
    page = visit(served.url)
    until(page, "mlatLabel.page.spans[0].length === 10000")
    assert page.locator("#states button").count() == 60
    assert page.locator("#states b").count() == 0
    drag(page, 5000, 9000)
    name(page, "<b>7</b>")
    until(page, "mlatLabel.page.spans[0].length < 10000")


def test_light_dark_and_small_screens(served, visit):
    page = visit(served.url)
    light = page.locator("#signal canvas").screenshot()
    press(page, "d")
    page.wait_for_timeout(100)
    assert page.locator("#signal canvas").screenshot() != light
    small = visit(served.url, viewport={"width": 600, "height": 900}, has_touch=True)
    assert small.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(
        "[...document.querySelectorAll('button, input, select, canvas')]"
        ".every((e) => e.ariaLabel || e.labels?.length || e.textContent || e.role === 'img'"
        " || e.closest('[aria-hidden]') || e.closest('.uplot'))"
    )


def test_sound_follows_the_cursor(labelling, visit, tmp_path):
    sound = tmp_path / "sound.wav"
    with wave.open(str(sound), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(np.zeros(8000 * 60, np.int16).tobytes())
    served = labelling(unlabelled(STREAM), media=sound, offset=-2.0)
    page = visit(served.url)
    until(page, "document.querySelector('audio').readyState > 0")
    page.locator("#signal").focus()
    page.evaluate("mlatLabel.page.cursor = 500")
    press(page, "Alt+ArrowRight")  # step 501 at 50 Hz, and the sound began 2 s before
    until(page, "Math.abs(document.querySelector('audio').currentTime - 12.02) < 0.01")


def test_kill_and_start_again(visit, tmp_path):
    bare = mlat.Stream(STREAM.values, channels=STREAM.channels)
    write_csv(tmp_path / "walk.csv", bare)
    content = (tmp_path / "walk.csv").read_bytes().replace(b",state", b",note")
    (tmp_path / "walk.csv").write_bytes(content.replace(b",\r\n", b",0\r\n"))
    original = (tmp_path / "walk.csv").read_bytes()
    process, url = started(tmp_path)
    try:
        page = visit(url)
        page.evaluate(  # as fast as it takes them, and killed in the middle
            """() => {
              const { page } = mlatLabel;
              globalThis.sent = 0;
              const next = () => {
                page.selection = [10 * sent, 10 * sent + 5];
                document.querySelector("#name").value = `s${sent++ % 7}`;
                document.querySelector("#name-form").requestSubmit();
                if (sent < 250) setTimeout(next, 4);
              };
              next();
            }"""
        )
        until(page, "mlatLabel.page.spans[0].length >= 20")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        page.wait_for_selector('#saved[data-kind="waiting"]')
        acknowledged = shown(page)
        port = url.rstrip("/").rpartition(":")[2]
        process, _ = started(tmp_path, "--serve", f"127.0.0.1:{port}")
        page.wait_for_selector('#saved[data-kind="saved"]')
        until(page, f"mlatLabel.page.spans[0].length >= {len(acknowledged)}")
        after = shown(page)
        assert after[: len(acknowledged)] == acknowledged
        table = [tuple(span[:3]) for span in read_spans(tmp_path / "walk.labels.csv")]
        assert table == after
        assert (tmp_path / "walk.csv").read_bytes() == original
        page.context.close()
        page.complaints.clear()  # a browser says itself that nobody was there
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()


# --- fingers, and two recordings at once


def touch(page, *fingers):
    """Fingers that go down, move along their points, rest, and go up, all at once.

    A finger that goes up while it moves flings the page: the tap after it would only stop that.
    """
    client = page.context.new_cdp_session(page)

    def send(kind, places):
        points = [{"x": x, "y": y, "id": i} for i, (x, y) in enumerate(places)]
        client.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    first, *more = zip(*fingers, strict=True)
    send("touchStart", first)
    for places in more:
        send("touchMove", places)
        page.wait_for_timeout(20)
    page.wait_for_timeout(200)
    send("touchMove", more[-1])
    send("touchEnd", [])
    client.detach()


def along(page, start, end, selector="#signal .u-over"):
    """The points of a finger from one step to another."""
    box = page.locator(selector).bounding_box()
    begin, length = page.evaluate("[mlatLabel.page.view.begin, mlatLabel.page.view.length]")
    y = box["y"] + box["height"] / 2
    steps = [start + (end - start) * part / 4 for part in range(5)]
    return [(box["x"] + (step - begin) / length * box["width"], y) for step in steps]


def test_fingers_are_enough(served, visit):
    """On a tablet: drag, tap, move an edge, zoom with two fingers and with buttons."""
    page = visit(served.url, viewport={"width": 1024, "height": 768}, has_touch=True)
    touch(page, along(page, 100, 250))
    until(page, "mlatLabel.page.selection !== null")
    page.locator("#name").fill("walk")
    page.locator("#name-form button").tap()
    until(page, "mlatLabel.page.spans[0].length === 1")
    start, end, _ = shown(page)[0]
    assert abs(start - 100) <= 5
    assert abs(end - 250) <= 5
    touch(page, along(page, 300, 330))
    until(page, "mlatLabel.page.selection !== null")
    page.locator("#states button").first.tap()
    until(page, "mlatLabel.page.spans[0].length === 2")
    touch(page, along(page, end, 280, "#labels"))  # the end of the first label
    until(page, f"mlatLabel.page.spans[0][0][1] !== {end}")
    assert abs(shown(page)[0][1] - 280) <= 5
    whole = page.evaluate("mlatLabel.page.view.length")
    middle = whole / 2
    fingers = along(page, middle - 50, middle - 200), along(page, middle + 50, middle + 200)
    touch(page, *fingers)  # apart: a quarter is shown
    until(page, f"mlatLabel.page.view.length < {0.4 * whole}")
    assert page.evaluate("mlatLabel.page.selection") is None  # two fingers select nothing
    before = page.evaluate("mlatLabel.page.view.begin")
    length = page.evaluate("mlatLabel.page.view.length")
    fingers = [along(page, at, at - 40) for at in (middle - 30, middle + 30)]
    touch(page, *fingers)  # both to the left: later steps are shown
    until(page, f"mlatLabel.page.view.begin > {before} + 20")
    assert page.evaluate("mlatLabel.page.view.length") == pytest.approx(length, rel=0.1)
    page.locator("#zoom-in").tap()
    until(page, f"mlatLabel.page.view.length < {0.6 * length}")
    page.locator("#zoom-all").tap()
    until(page, f"mlatLabel.page.view.length === {whole}")
    assert len(on_disk(served)) == 2


def test_two_recordings_at_once_are_labelled_each(labelling, visit):
    second = unlabelled(states_stream(seed=5)[:700], "run.csv")
    served = labelling(unlabelled(STREAM), second)
    page = visit(served.url)
    assert page.locator("#second").is_hidden()
    press(page, "b")
    page.locator("#second").wait_for()
    until(page, "mlatLabel.panes[1].chart.whole")
    assert page.evaluate("mlatLabel.page.number") == 1
    lengths = page.evaluate("mlatLabel.panes.map((pane) => pane.kept.view.length)")
    assert lengths == [len(STREAM), 700]  # each has a time axis of its own
    drag_in_pane(page, 100, 200, "#signal-2 .u-over")
    name(page, "sit")
    until(page, "mlatLabel.page.spans[1].length === 1")
    drag_in_pane(page, 50, 150, "#signal .u-over")  # and so the first one is used
    assert page.evaluate("mlatLabel.page.number") == 0
    press(page, "1")
    until(page, "mlatLabel.page.spans[0].length === 1")
    assert len({span.recording for span in table_of(served)}) == 2
    page.keyboard.press("ArrowUp")
    until(page, "mlatLabel.panes[0].kept.view.length < mlatLabel.panes[0].kept.view.steps")
    assert page.evaluate("mlatLabel.panes[1].kept.view.length") == 700
    page.locator("#signal-2").focus()  # by the Tab key, too
    assert page.evaluate("mlatLabel.page.number") == 1
    press(page, "z")
    until(page, "mlatLabel.page.spans[0].length === 0")
    press(page, "r")  # all are shown: they change places
    assert page.evaluate("mlatLabel.panes.map((pane) => pane.number)") == [1, 0]
    press(page, "b")
    assert page.locator("#second").is_hidden()
    assert page.evaluate("mlatLabel.page.number") == 1


def drag_in_pane(page, start, end, selector):
    """With the mouse over a pane whose whole recording is shown."""
    pane = 1 if "-2" in selector else 0
    box = page.locator(selector).bounding_box()
    length = page.evaluate(f"mlatLabel.panes[{pane}].kept.view.length")
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + start / length * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + (start + end) / 2 / length * box["width"], y)
    page.mouse.move(box["x"] + end / length * box["width"], y)
    page.mouse.up()


def learned(served):
    """Wait until a classifier has learned from the labels as they are."""
    learner, end = served.server.learner, time.monotonic() + 120
    while not learner.is_current or learner.progress.doing:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_the_signal_keeps_its_height_and_its_bands(served, visit):
    page = visit(served.url)
    height = "document.querySelector('#signal').clientHeight"
    before = page.evaluate(height)
    assert before > 400
    for k in range(6):
        served.session.label(0, RUN * k + 20, RUN * k + 280, STATES[k % 3])
    learned(served)
    page.locator("#compare").click()
    until(page, "document.querySelector('#comparison table')")
    assert page.evaluate(height) == before
    box, panel = page.locator("#time").bounding_box(), page.locator("#panel").bounding_box()
    assert panel["x"] >= box["x"] + box["width"]  # beside it
    drawn = """(() => { const {chart} = mlatLabel;
      const [n, h] = [chart.layer.width, chart.layer.height];
      const rows = new Set(); chart.dots.forEach((dot, i) => dot && rows.add(Math.floor(i / n)));
      return [[...rows], chart.bands(h).map(([, centre, half]) => [centre, half])]; })()"""
    rows, bands = page.evaluate(drawn)
    assert rows
    assert all(any(abs(y - centre) <= 1.06 * half + 2 for centre, half in bands) for y in rows)


def test_channels_have_values_and_are_hidden_enlarged_and_rescaled(served, visit):
    page = visit(served.url)
    press(page, "Home")
    first = f"{served.recordings[0].stream.values[0, 0]:.3g}".replace("e-0", "e-")
    until(page, "mlatLabel.chart.texts[0].split('\\n').length === 2")
    name, value = page.evaluate("mlatLabel.chart.texts[0].split('\\n')")
    assert name == "sensor 0"
    assert float(value) == float(first)
    page.locator("#channels summary").click()
    until(page, "document.querySelectorAll('#channel-list li').length === 4")
    page.locator("#channel-list input").nth(1).uncheck()
    assert page.evaluate("mlatLabel.chart.lanes.shown") == [0, 2, 3]
    for box in page.locator("#channel-list input:checked").all()[::-1]:
        box.click()
    assert len(page.evaluate("mlatLabel.chart.lanes.shown")) == 1  # one stays
    page.locator("#channel-list input").nth(1).check()
    page.locator("#scale").select_option("view")
    until(page, "mlatLabel.chart.scale === 'view' && mlatLabel.chart.whole")
    page.locator("#channels summary").click()
    over = page.locator("#signal .u-over").bounding_box()
    page.mouse.click(over["x"] - 30, over["y"] + 10)  # the name of the first lane
    assert page.evaluate("mlatLabel.chart.lanes.chosen") == page.evaluate(
        "mlatLabel.chart.lanes.shown[0]"
    )
    assert page.locator("#overview-canvas").screenshot()


def test_what_cannot_act_is_off_and_advice_that_is_done_goes_away(served, visit):
    page = visit(served.url)
    off = "[...document.querySelectorAll('#panel button:disabled')].map((one) => one.id)"
    assert {"split", "join", "edge", "delete", "ignore", "save", "take"} <= set(page.evaluate(off))
    served.session.label(0, 0, 4 * RUN, "walk")
    until(page, "mlatLabel.page.spans[0].length === 1")
    until(page, "!document.querySelector('#delete').disabled")  # the cursor is in it
    assert {"split", "join"} <= set(page.evaluate(off))
    served.session.label(0, 4 * RUN, 9 * RUN, "run")
    until(page, "document.querySelector('#guide').textContent.startsWith('Everything has a label')")
    learned(served)
    assert page.locator("#panel button", has_text="Save").count() == 1
    page.locator("#save").click()
    until(page, "document.querySelector('#guide').textContent === ''")


def test_ignored_spans_are_shown_and_nothing_is_learned_of_them(served, visit):
    page = visit(served.url)
    for k in range(2):
        served.session.label(0, RUN * k + 20, RUN * k + 280, STATES[k])
    until(page, "mlatLabel.page.spans[0].length === 2")
    drag(page, 600, 890)
    press(page, "i")
    until(page, "mlatLabel.page.spans[0].length === 3")
    assert [span[2] for span in on_disk(served)] == ["walk", "run", "(ignore)"]
    assert page.evaluate("mlatLabel.page.states") == ["walk", "run"]
    assert page.locator("#states button").count() == 2
    learned(served)
    for _ in range(8):  # what was ignored is not asked for
        press(page, "n")
        until(page, "document.querySelector('#why').textContent.startsWith('This is')")
        start, end = page.evaluate("mlatLabel.page.selection")
        assert min(end, 890) - max(start, 600) <= 0.5 * (end - start)
    out = served.server.learner.save(served.folder / "walk.mlat")
    assert mlat.load(out).classes_.tolist() == ["run", "walk"]
    press(page, "z")
    until(page, "mlatLabel.page.spans[0].length === 2")


def test_the_map_shows_what_is_alike_and_labels_what_is_drawn_around(served, visit):
    page = visit(served.url)
    for k in range(4):
        served.session.label(0, RUN * k + 20, RUN * k + 280, STATES[k % 3])
    learned(served)
    press(page, "g")
    until(page, "mlatLabel.map.points.length > 30")
    points = np.array(page.evaluate("mlatLabel.map.points"))
    assert (points[:, 3:] >= 0).all()
    assert (points[:, 3:] <= 1).all()
    truth = STREAM.states[((points[:, 1] + points[:, 2]) / 2).astype(int)]
    apart = ((points[:, None, 3:] - points[None, :, 3:]) ** 2).sum(axis=2)
    np.fill_diagonal(apart, np.inf)
    assert (truth[apart.argmin(axis=1)] == truth).mean() > 0.9  # neighbours are of one state
    canvas = page.locator("#map-canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()

    def place(point):
        x, y = page.evaluate(
            "(one) => mlatLabel.map.place(one, mlatLabel.map.canvas.clientWidth, "
            "mlatLabel.map.canvas.clientHeight)",
            point,
        )
        return box["x"] + x, box["y"] + y

    one = points[50].tolist()
    page.mouse.click(*place(one))
    until(page, "mlatLabel.page.selection !== null")
    start, _ = page.evaluate("mlatLabel.page.selection")
    assert any(start == p[1] for p in points.tolist())
    page.mouse.move(box["x"] + 5, box["y"] + 5)  # around all of them
    page.mouse.down()
    for x, y in ((0.99, 0.01), (0.99, 0.99), (0.01, 0.99), (0.01, 0.5)):
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
    page.mouse.up()
    assert page.evaluate("mlatLabel.map.chosen.length") > 0.8 * len(points)
    before = on_disk(served)
    version = page.evaluate("mlatLabel.page.version")
    name(page, "rest")
    until(page, f"mlatLabel.page.version === {version + 1}")  # one edit
    after = on_disk(served)
    assert set(before) < set(after)  # what was labelled stays
    assert sum(b - a for a, b, state in after if state == "rest") > 0.3 * len(STREAM)
    assert not any(mask[RUN * 6 :].any() for mask in served.session.by_hand())  # none is judged by
    press(page, "z")
    until(page, f"mlatLabel.page.spans[0].length === {len(before)}")
    assert page.complaints == []


@pytest.mark.parametrize(("width", "height"), [(390, 844), (820, 1180), (1280, 800)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_overlaps_on_any_screen(labelling, visit, width, height, scheme):
    long = mlat.Stream(
        STREAM.values, channels=[f"a very long name of sensor {c}" for c in range(4)]
    )
    served = labelling(Recording("walk.csv", long))
    page = visit(served.url, viewport={"width": width, "height": height}, color_scheme=scheme)
    for k in range(6):
        served.session.label(0, RUN * k + 20, RUN * k + 280, f"{STATES[k % 3]} of some kind")
    until(page, "mlatLabel.page.spans[0].length === 6")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    boxes = page.evaluate(
        """[...document.querySelectorAll(`header button, header select, #time .row .name, #guide,
          .under button, .under summary, #where, #panel button, #panel input, #panel h2,
          #panel summary`)]
          .filter((one) => one.offsetParent && !one.closest('details:not([open]) > :not(summary)'))
          .map((one) => { const b = one.getBoundingClientRect();
            return [one.id || one.textContent, b.left, b.top, b.right, b.bottom]; })"""
    )
    assert len(boxes) > 20
    for i, (a, *first) in enumerate(boxes):
        for b, *second in boxes[i + 1 :]:
            across = min(first[2], second[2]) - max(first[0], second[0])
            down = min(first[3], second[3]) - max(first[1], second[1])
            assert across <= 1 or down <= 1, (a, b)
    if width == 820:  # both halves of the panel are used
        panel, rest = (page.locator(one).bounding_box() for one in ("#panel .states", ".rest"))
        assert rest["x"] > panel["x"] + panel["width"]
        assert 0.5 < rest["height"] / panel["height"] < 2
