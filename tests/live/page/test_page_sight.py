"""The page for everyone: contrast, colours, names, announcements, less motion, small screens."""

import itertools

import numpy as np
import pytest
from test_page import (  # noqa: F401  fixtures are found by name
    STREAM,
    browser,
    played,
    shows,
    still,
    text,
    until,
    visit,
)

from mlat.live import Prediction, Steps
from page_server import Served, classifier

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
def test_text_stands_out(visit, still, scheme):  # noqa: F811
    page = visit(still, color_scheme=scheme)
    still.publish(STREAM.values[:60])
    still.hub.notice("lost", "broker away")
    shows(page, 60)
    page.wait_for_selector("#notice", state="visible")
    worst = page.evaluate(CONTRAST)
    assert len(worst) > 30
    assert worst[0][0] >= 4.5, worst[0]
    unknown = Prediction(60, "", np.nan, np.nan, (), "far", None, None, ())
    still.hub.publish(Steps(STREAM.values[60:61]), [unknown], None, 0.0)
    page.wait_for_selector("#why", state="visible")
    assert page.evaluate(CONTRAST)[0][0] >= 4.5


def test_states_are_told_apart_by_everyone(visit, still):  # noqa: F811
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


def test_light_and_dark(visit, still):  # noqa: F811
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


def test_everything_has_a_name(visit, still):  # noqa: F811
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


def test_states_are_announced_but_not_every_frame(visit, still):  # noqa: F811
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
        told = Prediction(step, state, 0.9, 1.0, (0,), "", None, None, (0.9, 0.1, 0.0, 0.0))
        still.hub.publish(Steps(STREAM.values[step : step + 1]), [told], None, 0.0)
        shows(page, step + 1)

    for step in range(8):
        publish(step, "running")
    assert page.evaluate("announced") == ["State: running"]
    for step in range(8, 14):  # a flicker, which ends as it began
        publish(step, ["walking", "running"][step % 2])
    publish(14, "cycling")
    until(page, "announced.at(-1) === 'State: cycling'")
    assert len(page.evaluate("announced")) <= 4


def test_less_motion_is_given_who_asks_for_it(visit, played):  # noqa: F811
    page = visit(played, reduced_motion="reduce")
    shows(page, 20)
    begun = page.evaluate("[performance.now(), mlatLive.paints.times.length]")
    shows(page, page.evaluate("mlatLive.page.buffer.next") + 200)
    ended = page.evaluate("[performance.now(), mlatLive.paints.times.length]")
    assert ended[1] - begun[1] <= (ended[0] - begun[0]) / 1000 + 1
    animated = "document.getAnimations().length"
    assert page.evaluate(animated) == 0


def test_a_phone_shows_it_all_without_scrolling_sideways(visit, played):  # noqa: F811
    page = visit(played, viewport={"width": 390, "height": 844}, has_touch=True)
    shows(page, 20)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
    for name in ("ribbon", "confidence", "lanes", "alike"):
        box = page.locator(f"#{name}").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
        assert box["height"] >= 30


def test_many_channels_keep_readable_lanes(visit):  # noqa: F811
    with Served(classifier(64)) as served:
        page = visit(served)
        served.publish(np.zeros((60, 64)))
        shows(page, 60)
        height = page.evaluate("document.querySelector('#lanes .u-over').clientHeight")
        assert height / 64 > 10.5
        assert text(page, "channels-about").startswith("64")
