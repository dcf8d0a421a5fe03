"""What is counted, as Prometheus's own parser reads it."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from live_clients import push
from live_oracles import columns
from mlat.classifier.drift import Drift
from mlat.live import Prediction
from mlat.live.page.hub import Hub
from mlat.live.page.metrics import LAG_BOUNDS, Counts, exposition


def samples(text):
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_prometheus_reads_the_counts():
    hub = Hub()
    page = hub.subscribe()
    push(hub, 0, 3, why="filling", lag=0.004)
    push(hub, 3, 2, why="dead channel acc_x", lag=0.004)
    push(hub, 5, 1, why='odd "reason"\\\n', lag=0.3)
    push(hub, 6, 4, lag=0.004)
    hub.emit()
    hub.refuse("malformed", 2)
    hub.counts.refused["origin"] += 1

    counters = {"late": 5, "duplicate": 6, "rejected": 7, "held": 8, "gaps": 9}
    hub.session = SimpleNamespace(counters=counters)
    found = samples(hub.prometheus())
    assert found[("mlat_steps_total",)] == 10
    assert found[("mlat_unknown_total", ("reason", "filling"))] == 3
    assert found[("mlat_unknown_total", ("reason", "dead channel"))] == 2
    assert found[("mlat_unknown_total", ("reason", 'odd "reason"\\\n'))] == 1
    assert found[("mlat_requests_refused_total", ("reason", "origin"))] == 1
    assert found[("mlat_source_refused_total",)] == 2
    assert found[("mlat_late_total",)] == 5
    assert found[("mlat_duplicates_total",)] == 6
    assert found[("mlat_frames_dropped_total",)] == 0
    assert found[("mlat_clients",)] == 1
    assert found[("mlat_lag_seconds_count",)] == 10
    assert found[("mlat_lag_seconds_bucket", ("le", "0.005"))] == 9
    assert found[("mlat_lag_seconds_bucket", ("le", "+Inf"))] == 10
    assert found[("mlat_lag_seconds_sum",)] == pytest.approx(9 * 0.004 + 0.3)
    page.close()
    assert samples(hub.prometheus())[("mlat_clients",)] == 0
    hub.drift = [Drift("az", 1.9, 0.5, 1234)]
    assert samples(hub.prometheus())[("mlat_drift", ("channel", "az"))] == 1.9
    assert hub.status()["drift"] == [str(hub.drift[0])]


def test_one_can_alert_on_a_state():
    hub, told = Hub(), {}
    clock = iter([10.0, 12.0, 13.0, 16.0])
    hub.counts.add(predicted("walk", "walk"), 0.0, next(clock))
    hub.counts.add(predicted("walk", "run"), 0.0, next(clock))
    hub.counts.add(predicted("", "run"), 0.0, next(clock))
    hub.counts.add(predicted("run", distance=2.5), 0.0, next(clock))
    told = samples(hub.prometheus())
    of = {name: {} for name in ("mlat_state", "mlat_state_seconds", "mlat_state_switches")}
    for (name, *labels), value in told.items():
        if name.removesuffix("_total") in of and labels:
            of[name.removesuffix("_total")][labels[0][1]] = value
    assert of["mlat_state"] == {"walk": 0, "run": 1, "(unknown)": 0}
    assert of["mlat_state_seconds"] == {"walk": 1, "run": 1 + 0.5 + 3, "(unknown)": 0.5}
    assert of["mlat_state_switches"] == {"walk": 1, "run": 2, "(unknown)": 1}
    assert told[("mlat_distance",)] == 2.5
    for k in range(300):  # names without end do not make figures without end
        hub.counts.add(predicted(f"state {k}"), 0.0, 20.0 + k)
    assert len(hub.counts.seconds) <= 201


def predicted(*states, distance=1.0):
    return columns(
        [
            Prediction(0, one, 0.9, distance, (), "" if one else "gap", None, None, ())
            for one in states
        ]
    )


@given(st.lists(st.floats(0, 100), max_size=30))
def test_the_lags_count_what_is_at_most_its_bound(values):
    counts = Counts()
    for value in values:
        counts.add(predicted("walk"), value)
    found = samples(exposition(counts, {}, clients=0, age=None))
    for bound in LAG_BOUNDS:
        at_most = sum(value <= bound for value in values)
        assert found[("mlat_lag_seconds_bucket", ("le", str(bound)))] == at_most
