"""The exported WebAssembly, run by Node and by a browser: it says what ``predict`` says."""

import json
import shutil
import subprocess

import numpy as np
import pytest

from export_models import FRESH, TRAIN
from mlat import InputError, Stream, StreamClassifier
from mlat.export import PlainModel, write_c
from mlat.export.folder import browser_files
from page_server import CHROMIUM, chromium

RUN = """
import { readFileSync } from "node:fs";
import { load } from "./mlat.js";
const rows = JSON.parse(readFileSync("rows.json", "utf-8"));
const model = await load(readFileSync("mlat.wasm"));
const [one, two] = [model.stream(), model.stream()];
const told = rows.map((row) => {
  two.push([0, 0, 0]); // a second stream does not mix with the first
  return one.push(row);
});
const refused = [[1], ["1", 0, 0], [0, 0, false], [[], 0, 0]].map((step) => {
  try { return one.push(step); } catch (error) { return error.message; }
});
const odd = [99, -1, 0.5, 2 ** 32, NaN, null, undefined, "x", {}, true];
const taught = [1, ...odd].map((state) => one.teach(state));
one.reset();
const after = one.push([0, 0, 0]).why;
const { states, channels } = model;
console.log(JSON.stringify({ told, states, channels, refused, taught, after }));
"""


def exported(folder, clf):
    code = write_c(PlainModel.of(clf), bits=64, spare=2)
    for name, data in browser_files(code, clf).items():
        (folder / name).write_bytes(data)


@pytest.fixture(scope="module")
def clf():
    names = np.where(TRAIN.states == "still", 'a "b"</script>\u00fc', TRAIN.states)
    return StreamClassifier().fit(Stream(TRAIN.values, names))


@pytest.fixture(scope="module")
def folder(clf, tmp_path_factory):
    pytest.importorskip("ziglang")
    folder = tmp_path_factory.mktemp("wasm")
    exported(folder, clf)
    return folder


def test_node_tells_what_predict_tells(clf, folder):
    if not shutil.which("node"):
        pytest.skip("no node")
    values = FRESH.values.copy()
    values[70, 1] = np.nan
    rows = [[None if np.isnan(v) else v for v in row] for row in values.tolist()]
    (folder / "rows.json").write_text(json.dumps(rows))
    (folder / "run.mjs").write_text(RUN)
    done = subprocess.run(["node", "run.mjs"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["states"] == clf.classes_.tolist()
    assert found["channels"] == list(clf.channels_)
    stream = Stream(values)
    assert [step["name"] for step in found["told"]] == clf.predict(stream).tolist()
    proba = clf.predict_proba(stream)
    known = ~np.isnan(proba).any(axis=1)
    told = np.array([step["probabilities"] for step in found["told"]])
    np.testing.assert_allclose(told[known], proba[known], atol=1e-6)
    assert [step["why"] for step in found["told"]][70] == "missing"
    assert found["refused"] == [
        "a step has 3 values, not 1",
        *(f"value {i} of a step is a {what}, not a number"
          for i, what in ((0, "string"), (2, "boolean"), (0, "object"))),
    ]  # fmt: skip
    assert found["taught"] == [True] + 10 * [False]
    assert found["after"] == "gap"


DRAWN = """() => { // what the page draws of each step
  const { next, first, labels, label, proba, values, d } = mlatLive.page.buffer;
  return Array.from({ length: next - first }, (_, i) => first + i).map(
    (step) => [...labels[label[step]], proba[step], values[step * d]]);
}"""
SHAKE = """async (rows) => {
  await document.getElementById("start").onclick();
  for (const [x, y, z] of rows) window.dispatchEvent(new DeviceMotionEvent("devicemotion",
    { accelerationIncludingGravity: { x, y, z } }));
}"""


def test_the_live_page_tells_a_recording_and_the_motion_of_a_device(clf, folder):
    pytest.importorskip("playwright")
    if not CHROMIUM:
        pytest.skip("no Chromium")
    stream = Stream(FRESH.values[:60])
    rows = stream.values.tolist()
    lines = [",".join(clf.channels_), *(",".join(map(str, row)) for row in rows)]
    (folder / "walk.csv").write_text("\n".join(lines))
    wanted, proba = clf.predict(stream), clf.predict_proba(stream).max(axis=1)
    known = wanted != clf.unknown_
    with chromium() as browser:
        page, errors = browser.new_page(), []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto((folder / "index.html").as_uri())
        page.wait_for_function("document.getElementById('file').onchange !== null")
        page.set_input_files("#file", folder / "walk.csv")
        page.wait_for_function("document.getElementById('count-steps').textContent === '60'")
        shown = [page.text_content(f"#{name}") for name in ("state", "connection-text", "told")]
        of_file = page.evaluate(DRAWN)
        page.evaluate(SHAKE, rows)
        of_sensors = page.evaluate(DRAWN)
    assert errors == []
    assert shown == [wanted[-1], "walk.csv", "\n".join(np.where(known, wanted, ""))]
    for told in (of_file, of_sensors):
        states, why, sure, first = zip(*told, strict=True)
        assert list(states) == np.where(known, wanted, None).tolist()
        assert [bool(text) for text in why] == (~known).tolist()
        np.testing.assert_allclose(np.array(sure, float)[known], proba[known], atol=1e-5)
        np.testing.assert_allclose(first, stream.values[:, 0], rtol=1e-6)


def test_whole_numbers_are_refused(clf):
    with pytest.raises(InputError, match="a browser has floating point"):
        browser_files(write_c(PlainModel.of(clf), bits=8, fixed=True), clf)
