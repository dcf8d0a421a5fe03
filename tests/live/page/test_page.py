"""The page in a real browser: it paints, follows, comes back, and stays within its means."""

import time

import pytest

from mlat.live import Prediction, Steps
from mlat.live.page.hub import IN_FLIGHT, QUEUE, Hub
from page_server import CHROMIUM, Served, body_stream, chromium, classifier, told

pytest.importorskip("playwright", reason="playwright drives the browser; it is not installed")
if CHROMIUM is None:
    pytest.skip("no Chromium is installed to show the page", allow_module_level=True)

STREAM = body_stream(random_state=1)
NEXT = "mlatLive.page.buffer?.next ?? 0"


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def played():
    with Served(classifier()) as served:
        served.play(STREAM)
        yield served


@pytest.fixture
def still():
    """A server whose stream stands still until a test publishes."""
    taught = []
    with Served(classifier(), teach=lambda *lesson: taught.append(lesson)) as served:
        served.taught = taught
        yield served


@pytest.fixture
def visit(browser):
    """Open a page of a server; anything it complains of fails the test."""
    contexts, complaints = [], []

    def opened(served, path="", **options):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        contexts.append(context)
        page = context.new_page()
        page.asked = []
        page.on("request", lambda request: page.asked.append(request.url))
        page.on("websocket", lambda socket: page.asked.append(socket.url))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else 0)
        page.on("response", lambda got: complaints.append(got.url) if got.status >= 400 else 0)
        page.complaints = complaints
        page.goto(served.url + path)
        page.wait_for_url(served.url)
        until(page, "globalThis.mlatLive?.page.model")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not complaints


def until(page, true):
    """Wait for an expression to hold; asked from outside, for the page's policy forbids `eval`."""
    end = time.monotonic() + 20
    while not page.evaluate(true):
        assert time.monotonic() < end, f"never came true: {true}"
        page.wait_for_timeout(20)


def shows(page, step):
    """Wait until the page has taken in everything before a step."""
    until(page, f"({NEXT}) >= {step}")


def text(page, name):
    return page.locator(f"#{name}").text_content()


def colours(page, selector):
    """How many pixels of a canvas are drawn on, and in how many colours."""
    return page.evaluate(
        """(selector) => {
          const canvas = document.querySelector(selector);
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          const pixels = new Uint32Array(data.buffer);
          return [pixels.filter((p) => p >>> 24).length, new Set(pixels).size];
        }""",
        selector,
    )


def test_it_paints_and_follows_and_asks_nobody_else(visit, played):
    page = visit(played)
    shows(page, 200)
    until(page, "mlatLive.paints.times.length > 5")
    until(page, "document.querySelector('#alike-about').textContent.includes('distance')")
    for canvas in ("#ribbon", "#confidence", "#alike", "#lanes canvas"):
        drawn, different = colours(page, canvas)
        assert drawn > 1000, canvas
        assert different > 4, canvas
    assert text(page, "state") in {"walking", "running", "cycling", "standing", "unknown"}
    step = page.evaluate(NEXT)
    before = page.locator("#lanes canvas").screenshot()
    shows(page, step + 50)
    until(page, "mlatLive.paints.times.length > 10")
    assert page.locator("#lanes canvas").screenshot() != before
    assert int(text(page, "count-steps").replace(",", "")) >= step
    assert page.evaluate("[mlatLive.page.buffer.missed, mlatLive.page.buffer.doubled]") == [0, 0]
    own = (f"http://127.0.0.1:{played.port}/", f"ws://127.0.0.1:{played.port}/")
    assert len(page.asked) > 10
    assert [url for url in page.asked if not url.startswith(own)] == []


def test_it_shows_what_was_predicted(visit, still):
    page = visit(still)
    still.publish(STREAM.values[:120])
    shows(page, 120)
    last = told(still.clf, STREAM.values[:120])[-1]
    until(page, f"document.querySelector('#state').textContent === {last.state!r}")
    assert text(page, "sure").startswith(f"{round(100 * last.proba)} % sure")
    assert text(page, "count-unknown") == "39 (filling)"
    until(
        page,
        f"document.querySelector('#alike-about').textContent.includes('Nearest: {last.state}')",
    )
    held = page.evaluate("Array.from(mlatLive.page.buffer.values.slice(119 * 27, 120 * 27))")
    assert held == pytest.approx(STREAM.values[119].tolist(), rel=1e-6)
    labels = page.evaluate(
        "mlatLive.page.buffer.stretches(0, 120)"
        ".map(([a, b, label]) => [a, ...mlatLive.page.buffer.labels[label]])"
    )
    assert labels[0] == [0, None, "filling"]
    assert labels[1][0] == 39


@pytest.mark.parametrize(
    ("why", "says"),
    [
        ("far", "unlike anything"),
        ("gap", "Steps were lost"),
        ("missing", "A value was missing"),
        ("dead channel chest y", "Channel chest y has stopped moving"),
    ],
)
def test_it_says_why_a_state_is_unknown(visit, still, why, says):
    page = visit(still)
    nan = float("nan")
    unknown = Prediction(0, "", nan, nan, (), why, None, None, ())
    still.hub.publish(Steps(STREAM.values[:1]), [unknown], None, 0.0)
    until(page, "document.querySelector('#state').textContent === 'unknown'")
    assert says in text(page, "why")
    assert page.locator("#why").is_visible()


def test_it_comes_back_after_a_restart_without_gaps_or_doubles(visit, still):
    page = visit(still)
    still.publish(STREAM.values[:100])
    shows(page, 100)
    still.stop()
    page.wait_for_selector('#connection[data-kind="waiting"]')
    assert "trying again" in text(page, "connection-text")
    still.hub.publish(
        Steps(STREAM.values[100:150]), told(still.clf, STREAM.values[:150])[100:], None, 0
    )
    still.start(still.port)
    page.wait_for_selector('#connection[data-kind="live"]')
    shows(page, 150)
    buffer = "mlatLive.page.buffer"
    assert page.evaluate(f"[{buffer}.first, {buffer}.missed, {buffer}.doubled]") == [0, 0, 0]
    still.stop()  # and now another program, which numbers its steps anew
    still.hub = Hub()
    still.publish(STREAM.values[:60])
    still.start(still.port)
    until(page, "mlatLive.page.buffer.next === 60")
    page.complaints.clear()  # a browser says itself that nobody was there


def test_a_stalled_page_loses_frames_and_counts_them(visit, played):
    page = visit(played)
    shows(page, page.evaluate(NEXT) + 1)
    before = played.hub.counts.dropped
    seconds = (QUEUE + IN_FLIGHT) / 25 + 1.5
    page.evaluate(f"const until = Date.now() + {1000 * seconds}; while (Date.now() < until);")
    until(page, "mlatLive.page.dropped > 0")
    until(page, "Number(document.querySelector('#count-dropped').textContent) > 0")
    told_here = page.evaluate("mlatLive.page.dropped")
    assert 0 < told_here <= played.hub.counts.dropped - before
    assert page.evaluate("mlatLive.page.buffer.missed") > 0
    assert page.evaluate("mlatLive.page.buffer.doubled") == 0
    shows(page, page.evaluate(NEXT) + 50)  # and it follows again
    assert all(len(one._queue) <= QUEUE for one in played.hub._subscriptions)


def test_a_page_on_a_slow_machine_still_follows(visit, played):
    page = visit(played)
    page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": 6})
    step = page.evaluate(NEXT)
    shows(page, step + 100)
    assert played.hub.history.next - page.evaluate(NEXT) < 100 * 3  # within 3 s of the stream
    assert page.evaluate("mlatLive.page.buffer.doubled") == 0


def test_keys(visit, played):
    page = visit(played)
    shows(page, 50)
    until(page, "document.querySelector('#state').textContent !== '…'")
    page.keyboard.press("Space")
    assert page.locator("#pause").get_attribute("aria-pressed") == "true"
    assert text(page, "connection-text").startswith("Paused at step")
    end, step = page.evaluate("[mlatLive.page.paused.end, mlatLive.page.buffer.next]")
    shows(page, step + 30)  # steps are taken in,
    assert page.evaluate("mlatLive.page.paused.end") == end  # but the picture stands still
    page.keyboard.press("Space")
    page.wait_for_selector('#connection[data-kind="live"]')
    for key, channel in (("ArrowDown", "0"), ("ArrowDown", "1"), ("ArrowUp", "0"), ("Escape", "")):
        page.keyboard.press(key)
        assert page.locator("#channel").input_value() == channel
    page.keyboard.press("ArrowUp")
    assert "head z enlarged" in page.locator("#lanes").get_attribute("aria-label")
    page.select_option("#group", "left wrist")
    assert page.evaluate("mlatLive.page.lanes.shown") == [6, 7, 8]
    page.keyboard.press("Tab")  # what the keys are on can be seen
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(outline) == "solid"
    page.locator("#pause").focus()
    page.keyboard.press("Space")  # on a button it presses the button, once
    assert page.locator("#pause").get_attribute("aria-pressed") == "true"


def test_a_click_enlarges_a_lane(visit, played):
    page = visit(played)
    shows(page, 50)
    box = page.locator("#lanes .u-over").bounding_box()
    page.mouse.click(box["x"] + 50, box["y"] + box["height"] * 2.5 / 27)
    assert page.locator("#channel").input_value() == "2"


def test_teaching(visit, still):
    page = visit(still)
    still.publish(STREAM.values[:60])
    shows(page, 60)
    page.locator("#lesson-n").fill("3")
    page.get_by_role("button", name="running").click()
    page.get_by_text("Taught: the last 3 windows are running.").wait_for()
    page.locator("#lesson-other").fill("hopping")
    page.keyboard.press("Enter")
    page.get_by_text("are hopping").wait_for()
    assert still.taught == [("running", 3), ("hopping", 3)]
    page.locator("#charts").focus()
    page.keyboard.press("Space")
    assert page.get_by_role("button", name="running").is_disabled()


def test_without_a_teacher_there_are_no_buttons(visit, played):
    assert visit(played).locator("#teaching").is_hidden()


def test_the_source_is_told_of(visit, still):
    page = visit(still)
    still.hub.notice("lost", "broker away")
    page.get_by_text("Source lost: broker away").wait_for()
    still.hub.notice("connected", "broker back")
    page.wait_for_selector("#notice", state="hidden")


def test_a_token_opens_the_page_and_leaves_the_address(visit):
    token = "a-token-that-is-long-enough"
    with Served(classifier(), token=token) as served:
        page = visit(served, f"?token={token}")
        page.wait_for_selector('#connection[data-kind="live"]')
        assert page.url == served.url


def test_pages_of_others_cannot_watch(browser, still):
    page = browser.new_page()
    opened = page.evaluate(
        """(url) => new Promise((done) => {
          const socket = new WebSocket(url);
          socket.onopen = () => done(true);
          socket.onclose = () => done(false);
        })""",
        f"ws://127.0.0.1:{still.port}/frames",
    )
    page.close()
    assert not opened
    assert still.hub.counts.refused["origin"] == 1
