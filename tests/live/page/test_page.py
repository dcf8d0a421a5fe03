"""The page in a real browser: it draws, follows, reconnects, and is readable for everyone."""

import dataclasses
import itertools
import re
import time

import numpy as np
import pytest

from explain_models import committee
from explain_models import test as sensors
from live_oracles import columns
from mlat import StreamClassifier
from mlat.live import Prediction, Steps
from mlat.live.page.hub import IN_FLIGHT, QUEUE, Hub
from page_server import CHROMIUM, Served, body_stream, chromium, classifier, predict_steps

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
    with Served(classifier(), teach=lambda *example: taught.append(example)) as served:
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
    # The server may have ended before its page: then the browser says that nobody was there.
    assert not [words for words in complaints if "ERR_CONNECTION_REFUSED" not in words]


def until(page, true):
    """Wait for an expression to hold; asked from outside, for the page's policy forbids `eval`."""
    end = time.monotonic() + 60
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


def test_it_draws_and_follows_and_connects_to_no_other_server(visit, played):
    page = visit(played)
    shows(page, 200)
    until(page, "mlatLive.paintTimes.times.length > 5")
    until(page, "document.querySelector('#similar-about').textContent.includes('distance')")
    for canvas in ("#ribbon", "#confidence", "#similar", "#lanes canvas"):
        drawn, different = colours(page, canvas)
        assert drawn > 1000, canvas
        assert different > 4, canvas
    assert text(page, "state") in {"walking", "running", "cycling", "standing", "unknown"}
    step = page.evaluate(NEXT)
    before = page.locator("#lanes canvas").screenshot()
    shows(page, step + 50)
    until(page, "mlatLive.paintTimes.times.length > 10")
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
    last = predict_steps(still.clf, STREAM.values[:120])[-1]
    until(page, f"document.querySelector('#state').textContent === {last.state!r}")
    assert text(page, "probability").startswith(f"{round(100 * last.proba)} % confidence")
    assert text(page, "count-unknown") == "39 (filling)"
    until(
        page,
        f"document.querySelector('#similar-about').textContent.includes('Nearest: {last.state}')",
    )
    held = page.evaluate("Array.from(mlatLive.page.buffer.values.slice(119 * 27, 120 * 27))")
    assert held == pytest.approx(STREAM.values[119].tolist(), rel=1e-6)
    labels = page.evaluate(
        "mlatLive.page.buffer.runs(0, 120)"
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
    still.hub.publish(Steps(STREAM.values[:1]), columns([unknown]), None, 0.0)
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
        Steps(STREAM.values[100:150]), predict_steps(still.clf, STREAM.values[:150])[100:], None, 0
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
    dropped_here = page.evaluate("mlatLive.page.dropped")
    assert 0 < dropped_here <= played.hub.counts.dropped - before
    assert page.evaluate("mlatLive.page.buffer.missed") > 0
    assert page.evaluate("mlatLive.page.buffer.doubled") == 0
    shows(page, page.evaluate(NEXT) + 50)  # and it follows again


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
    until(page, "document.querySelector('#state').textContent !== '…'")  # its lines have a place
    box = page.locator("#lanes .u-over").bounding_box()
    page.mouse.click(box["x"] + 50, box["y"] + box["height"] * 2.5 / 27)
    until(page, "document.querySelector('#channel').value === '2'")


def test_teaching(visit, still):
    page = visit(still)
    still.publish(STREAM.values[:60])
    shows(page, 60)
    page.locator("#example-n").fill("3")
    page.get_by_role("button", name="running").click()
    page.get_by_text("Taught: the last 3 windows are running.").wait_for()
    page.locator("#example-other").fill("hopping")
    page.keyboard.press("Enter")
    page.get_by_text("are hopping").wait_for()
    assert still.taught == [("running", 3), ("hopping", 3)]
    page.locator("#charts").focus()
    page.keyboard.press("Space")
    assert page.get_by_role("button", name="running").is_disabled()


def test_without_a_teacher_there_are_no_buttons(visit, played):
    assert visit(played).locator("#teaching").is_hidden()


def test_notices_of_the_source_are_shown(visit, still):
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


# --- the page for everyone: contrast, colours, names, announcements, less motion, small screens

CONTRAST = """() => {
  const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const worst = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || !element.checkVisibility() || element.closest("script, option")) continue;
    const [a, b] = [light(parse(getComputedStyle(element).color)), light(ground(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    worst.push([contrast, element.tagName + " " + element.textContent.trim().slice(0, 30)]);
  }
  return worst.sort((a, b) => a[0] - b[0]);
}"""

# Machado, Oliveira & Fernandes (2009), of full severity, over linear RGB.
SIGHTS = {
    "normal": np.eye(3),
    "protan": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
    "deutan": [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]],
    "tritan": [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
}
# Björn Ottosson's Oklab: distances as they are seen; 0.02 is about a just noticeable difference.
_CONES = [[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]]
_LAB = [[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]]


def linear(colour):
    c = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def seen(colour, sight):
    rgb = np.clip(np.array(SIGHTS[sight]) @ linear(colour), 0, 1)
    return np.array(_LAB) @ np.cbrt(np.array(_CONES) @ rgb)


def contrast(a, b):
    low, high = sorted(linear(c) @ [0.2126, 0.7152, 0.0722] for c in (a, b))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out(visit, still, scheme):
    page = visit(still, color_scheme=scheme)
    still.publish(STREAM.values[:60])
    still.hub.notice("lost", "broker away")
    shows(page, 60)
    page.wait_for_selector("#notice", state="visible")
    worst = page.evaluate(CONTRAST)
    assert len(worst) > 30
    assert worst[0][0] >= 4.5, worst[0]
    unknown = Prediction(60, "", np.nan, np.nan, (), "far", None, None, ())
    still.hub.publish(Steps(STREAM.values[60:61]), columns([unknown]), None, 0.0)
    page.wait_for_selector("#why", state="visible")
    assert page.evaluate(CONTRAST)[0][0] >= 4.5


def test_states_are_distinct_for_everyone(visit, still):
    page = visit(still)
    palette = page.evaluate("import('/page/palette.js').then((module) => module.palette)")
    ink_on = "(colour) => import('/page/palette.js').then((module) => module.inkOn(colour))"
    for scheme, ground in (("light", "#ffffff"), ("dark", "#161d24")):
        for one, other in itertools.combinations(palette[scheme], 2):
            for sight in SIGHTS:
                apart = np.linalg.norm(seen(one, sight) - seen(other, sight))
                assert apart > 0.1, (scheme, sight, one, other)
        for colour in palette[scheme]:
            assert contrast(colour, ground) >= 3, (scheme, colour)
            assert contrast(colour, page.evaluate(ink_on, colour)) >= 4.5
    looks = {(i % 8, i % len(palette["patterns"])) for i in range(40)}
    assert len(looks) == 40  # and beyond eight states by their patterns


def test_light_and_dark(visit, still):
    page = visit(still, color_scheme="dark")
    still.publish(STREAM.values[:60])
    shows(page, 60)
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    assert max(map(int, dark[4:-1].split(","))) < 50
    page.keyboard.press("d")
    light = page.evaluate(ground)
    assert min(map(int, light[4:-1].split(","))) > 200
    page.reload()  # the choice is kept
    until(page, "globalThis.mlatLive?.page.model")
    assert page.evaluate(ground) == light
    page.select_option("#theme", "auto")
    assert page.evaluate(ground) == dark
    page.emulate_media(color_scheme="light")
    assert page.evaluate(ground) == light


def test_everything_has_a_name(visit, still):
    page = visit(still)
    still.publish(STREAM.values[:60])
    shows(page, 60)
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("button, select, input, canvas, [role=img]")]
          .filter((e) => !e.closest("[aria-hidden], [role=img] *"))
          .filter((e) => !(e.ariaLabel || e.labels?.length || e.textContent.trim()))
          .map((e) => e.outerHTML.slice(0, 80))"""
    )
    assert unnamed == []
    assert page.get_by_role("heading", level=1).count() == 1
    assert page.get_by_role("status").count() >= 1
    assert page.get_by_role("combobox", name="Enlarge").is_visible()
    assert page.get_by_role("button", name="Pause").is_visible()
    assert page.evaluate("document.documentElement.lang") == "en"


def test_states_are_announced_but_not_every_frame(visit, still):
    page = visit(still)
    page.evaluate(
        """() => {
          globalThis.announced = [];
          const place = document.querySelector("#announcer");
          new MutationObserver(() => announced.push(place.textContent))
            .observe(place, { childList: true });
        }"""
    )

    def publish(step, state):
        prediction = Prediction(step, state, 0.9, 1.0, (0,), "", None, None, (0.9, 0.1, 0.0, 0.0))
        still.hub.publish(Steps(STREAM.values[step : step + 1]), columns([prediction]), None, 0.0)
        shows(page, step + 1)

    for step in range(8):
        publish(step, "running")
    assert page.evaluate("announced") == ["State: running"]
    for step in range(8, 14):  # a flicker, which ends as it began
        publish(step, ["walking", "running"][step % 2])
    publish(14, "cycling")
    until(page, "announced.at(-1) === 'State: cycling'")
    assert len(page.evaluate("announced")) <= 4


def test_less_motion_on_request(visit, played):
    page = visit(played, reduced_motion="reduce")
    shows(page, 20)
    begun = page.evaluate("[performance.now(), mlatLive.paintTimes.times.length]")
    shows(page, page.evaluate("mlatLive.page.buffer.next") + 200)
    ended = page.evaluate("[performance.now(), mlatLive.paintTimes.times.length]")
    assert ended[1] - begun[1] <= (ended[0] - begun[0]) / 1000 + 1
    animated = "document.getAnimations().length"
    assert page.evaluate(animated) == 0


def test_a_phone_shows_it_all_without_scrolling_sideways(visit, played):
    page = visit(played, viewport={"width": 390, "height": 844}, has_touch=True)
    shows(page, 20)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
    for name in ("ribbon", "confidence", "lanes", "similar"):
        box = page.locator(f"#{name}").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
        assert box["height"] >= 30


def test_many_channels_keep_readable_lanes(visit):
    with Served(classifier(64)) as served:
        page = visit(served)
        served.publish(np.zeros((60, 64)))
        shows(page, 60)
        height = page.evaluate("document.querySelector('#lanes .u-over').clientHeight")
        assert height / 64 > 10.5
        assert text(page, "channels-about").startswith("64")


def test_rate_and_time_axis_are_right_across_a_gap(visit, still):
    """100 steps a second by the source's clock, and ten minutes in which none came."""
    page = visit(still)
    n = 600
    times = np.arange(n) / 100 + np.where(np.arange(n) < 400, 0, 600)
    predictions = [
        dataclasses.replace(one, time=float(time))
        for one, time in zip(predict_steps(still.clf, STREAM.values[:n]), times, strict=True)
    ]
    still.hub.publish(Steps(STREAM.values[:n], time=times), columns(predictions), None, 0.0)
    shows(page, n)
    until(page, "document.getElementById('count-rate').textContent === '100 /s'")
    page.select_option("#span", "5")
    # Of the last 500 steps, 200 came after the gap. The axis of the longer span has six ticks, too.
    texts = "−10 min, −10 min, −10 min, −2 s, −1 s, now"
    told = "mlatLive.page.view?.ticks.map((tick) => tick.text).join(', ')"
    until(page, f"{told} === '{texts}'")


@pytest.fixture
def several():
    """A server of a committee, whose stream stands still."""
    with Served(committee()) as served:
        yield served


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_shows_how_far_the_experts_agree(several, visit, scheme):
    clf = several.clf
    told = clf.live(search="exact", far=None).push(sensors.values)
    step = next(p.step for p in told if p.agreement < 0.999)

    def publish(begin, end):
        several.hub.publish(Steps(sensors.values[begin:end]), told[begin:end], None, 0.001)

    publish(0, step + 1)
    page = visit(several, color_scheme=scheme)
    shows(page, step + 1)
    until(page, "document.querySelector('#agree').textContent !== ''")
    named = ", ".join(f"{m.name} {100 * m.weight:.0f} %" for m in clf.committee_.deciding)
    assert text(page, "experts-about") == named
    part = f"{100 * told[step].agreement:.0f} %"
    assert text(page, "agree") == f"{part} of the experts’ weight agrees"
    got = page.evaluate(
        f"[...Array({step + 1}).keys()].map((s) => mlatLive.page.buffer.agreement[s])"
    )
    expected = [p.agreement for p in told[: step + 1]]
    assert np.allclose(np.array(got, float), expected, equal_nan=True)
    drawn, different = colours(page, "#agreement")
    assert drawn > 1000
    assert different > 2
    later = next(p.step for p in told[step:] if p.agreement > 0.999)
    publish(step + 1, later + 1)
    shows(page, later + 1)
    until(page, "document.querySelector('#agree').textContent === 'All experts agree'")


def test_one_expert_has_nobody_to_agree_with(visit, still):
    page = visit(still)
    still.publish(STREAM.values[:60])
    shows(page, 60)
    for name in ("agree", "agreement", "experts"):
        assert not page.locator(f"#{name}").is_visible()


def drag(page, selector, begin, end):
    """Drag with the mouse over a chart, from a fraction of its time axis to another."""
    box = page.locator(selector).bounding_box()
    left, room = box["x"] + 124, box["width"] - 124 - 12
    y = box["y"] + box["height"] / 2
    page.mouse.move(left + begin * room, y)
    page.mouse.down()
    page.mouse.move(left + (begin + end) / 2 * room, y)
    page.mouse.move(left + end * room, y)
    page.mouse.up()


@pytest.fixture
def session():
    """A real session behind a page that can teach it; it stands still until a test pushes."""
    live = classifier().live(teachable=12_000, search="exact")
    saved = []

    def save():
        saved.append(live.taught_model())
        return "body-2.mlat"

    example = {"teach": live.teach, "teach_span": live.teach_span, "undo": live.undo, "save": save}

    def push(values, first):
        steps = Steps(values, time=(first + np.arange(len(values))) / 100)
        served.hub.publish(steps, live.push(steps), live, 0.0)

    with Served(classifier(), Hub(rate=100.0), **example) as served:
        served.live, served.saved, served.push = live, saved, push
        yield served


def test_a_marked_span_is_taught_undone_and_saved(visit, session):
    page = visit(session)
    session.push(STREAM.values[:700], 0)
    shows(page, 700)
    page.locator("#span").select_option("5")
    until(page, "mlatLive.page.view?.begin === 200")
    before = session.live.snapshot()
    drag(page, "#ribbon", 0.2, 0.5)  # of the last 500 steps
    until(page, "mlatLive.mark.steps !== null")
    begin, end = page.evaluate("mlatLive.mark.steps")
    assert abs(begin - 300) <= 3
    assert abs(end - 450) <= 3
    assert text(page, "example-mark") == f"The {end - begin} marked steps"
    page.locator("#example-other").fill("hopping")
    page.locator("#example button[type=submit]").click()
    until(page, "document.querySelector('#example-said').textContent.startsWith('Taught')")
    (state, n), spans = session.live.examples[-1], session.live.state.examples.spans
    assert state == "hopping"
    assert text(page, "example-said") == f"Taught: {n} windows are hopping."
    # Every window lies inside the span.
    ages = np.concatenate([span.age + span.start for span in spans])
    assert begin <= ages.min() <= ages.max() + 40 <= end
    assert page.evaluate("mlatLive.mark.steps") is None
    session.push(STREAM.values[700:720], 700)
    shows(page, 720)
    until(page, "!document.querySelector('#example-undo').disabled")
    assert text(page, "example-undo") == f"Undo ({n} × hopping)"
    page.locator("#example-save").click()
    until(page, "document.querySelector('#example-said').textContent.startsWith('Saved')")
    assert "hopping" in session.saved[0].classes_
    page.locator("#example-undo").click()
    until(page, "document.querySelector('#example-said').textContent.startsWith('Undone')")
    assert session.live.examples == []
    assert len(before) == len(session.live.snapshot()) or "hopping" not in session.live.classes


def test_seconds_are_taught_also_of_a_picture_that_stands_still(visit, session):
    page = visit(session)
    session.push(STREAM.values[:400], 0)
    shows(page, 400)
    page.locator("#pause").click()
    session.push(STREAM.values[400:600], 400)
    shows(page, 600)
    page.locator("#example-unit").select_option("seconds")
    page.locator("#example-n").fill("1")
    page.locator("#example-ago").fill("2")
    page.locator("#example-states button").first.click()
    until(page, "document.querySelector('#example-said').textContent.startsWith('Taught')")
    span = session.live.state.examples.spans[0]
    # From 3 to 2 seconds before step 400, of 100 a second.
    assert (span.age + span.start[0], span.age + span.start[-1] + 40) == (100, 200)


def test_a_finger_marks_too(visit, session):
    page = visit(session, has_touch=True)
    session.push(STREAM.values[:700], 0)
    shows(page, 700)
    page.locator("#span").select_option("5")
    until(page, "mlatLive.page.view?.begin === 200")
    box = page.locator("#lanes .u-over").bounding_box()
    client = page.context.new_cdp_session(page)
    for kind, at in [
        ("touchStart", 0.2),
        ("touchMove", 0.3),
        ("touchMove", 0.5),
        ("touchEnd", None),
    ]:
        x, y = box["x"] + (at or 0) * box["width"], box["y"] + box["height"] / 2
        points = [] if at is None else [{"x": x, "y": y}]
        client.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    until(page, "mlatLive.mark.steps !== null")
    begin, end = page.evaluate("mlatLive.mark.steps")
    assert abs(begin - 300) <= 4
    assert abs(end - 450) <= 4
    assert page.locator("#channel").input_value() == ""  # it was no tap on a lane
    page.keyboard.press("Escape")
    until(page, "mlatLive.mark.steps === null")


def test_channels_that_are_off_by_something_are_told_apart(visit, still):
    page = visit(still)
    values = STREAM.values[:200].copy()
    values[:, 4] += 50.0
    values[:, 5] -= 3000.0
    still.publish(values)
    shows(page, 200)
    until(page, "mlatLive.page.lanes.offsets[5] < 0")
    offsets = page.evaluate("mlatLive.page.lanes.offsets")
    assert [c for c, offset in enumerate(offsets) if offset] == [4, 5]
    middle = [page.evaluate(f"mlatLive.page.model.middle[{c}]") for c in (4, 5)]
    part = values[:200]
    for c, where, offset in zip((4, 5), middle, offsets[4:6], strict=True):
        assert part[:, c].min() < where + offset < part[:, c].max()
    drawn = page.evaluate(
        "mlatLive.chart.data.slice(1).map((one) => [Math.min(...one), Math.max(...one)])"
    )
    total = page.evaluate("mlatLive.page.lanes.total")
    for c, (low, high) in enumerate(drawn):  # every line in its own lane, and none is flat
        assert total - c - 1 <= low < high <= total - c
    names = page.evaluate("mlatLive.chart.names(mlatLive.chart.plot)")
    assert " +50" in names[4]
    assert re.search(r" −(3,?0|2,?9)\d\d$", names[5])
    assert "+" not in names[3]


def test_all_states_are_shown_and_counts_of_use_are_folded(visit):
    stream = body_stream(3)
    many = np.array([f"state {k // 150:02d}" for k in range(len(stream))])
    clf = StreamClassifier(8, metric="euclidean").fit(stream.values, many)
    with Served(clf) as served:
        page = visit(served)
        served.publish(stream.values[:60])
        shows(page, 60)
        until(
            page, f"document.querySelectorAll('#probabilities li').length === {len(clf.classes_)}"
        )
        named = page.locator("#probabilities li > :first-child").all_text_contents()
        assert named == clf.classes_.tolist()
        assert not page.locator("#count-dropped").is_visible()
        page.get_by_text("More counts").click()
        assert page.locator("#count-dropped").is_visible()


def test_on_a_phone_one_teaches_in_seconds_before_the_charts(visit, session):
    page = visit(session, viewport={"width": 390, "height": 844}, has_touch=True)
    session.push(STREAM.values[:400], 0)
    shows(page, 400)
    assert page.locator("#example-unit").input_value() == "seconds"
    assert page.locator("#example-n").input_value() == "2"
    teaching, charts = (page.locator(one).bounding_box() for one in ("#teaching", "#charts"))
    assert teaching["y"] < 844
    assert teaching["y"] + teaching["height"] <= charts["y"]
    page.locator("#example-states button").first.tap()
    until(page, "document.querySelector('#example-said').textContent.startsWith('Taught')")
    span = session.live.state.examples.spans[0]
    assert 200 <= span.age + span.start[0] <= 201
    assert span.age + span.start[-1] + 40 == 400


def test_the_strip_of_agreement_has_a_legend(visit, several):
    page = visit(several)
    assert "say the state that is shown" in page.locator(".legend").text_content()
    assert page.locator(".legend").is_visible()
