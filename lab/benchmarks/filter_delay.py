"""What the causal filter gains, and how late it is at a switch of states.

    python lab/benchmarks/filter_delay.py DATA

Synthetic streams with runs of 60, 200 and 600 steps, and the whole recordings of the development
people of SCMA, which switch eight times each. A classifier learns from other steps than those it
is judged on, but for the given 510 of each label inside SCMA's recordings, which are left out.
"""

from __future__ import annotations

import argparse

import numpy as np

from mlat import Stream, StreamClassifier
from mlat.classifier.state_filter import switch_delay
from mlat.synthetic import rotating_states
from mlat_lab.experiments.people import uci_people
from mlat_lab.experiments.protocol import as_streams, split, split_seed
from mlat_lab.experiments.systems import DEVELOPMENT


def report(name: str, classifier: StreamClassifier, stream: Stream, judged: np.ndarray) -> None:
    starts = np.zeros(len(stream), bool)
    starts[stream.segments.start] = True
    place = {state: code for code, state in enumerate(classifier.classes_.tolist())}
    true = np.array([place.get(state, -1) for state in stream.states.tolist()])
    for filtered in (False, True):
        states = classifier.predict(stream, filtered=filtered)
        codes = np.array([place.get(state, -1) for state in states.tolist()])
        use = judged & (codes >= 0) & (true >= 0)
        delay = switch_delay(true, codes, starts)
        print(
            f"| {name} | {'filtered' if filtered else 'plain'} "
            f"| {100 * (codes[use] == true[use]).mean():.1f} | {delay.n_switches} "
            f"| {delay.first_median:.0f} | {delay.settled_median:.0f} "
            f"| {100 * delay.missed:.0f} % |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data")
    data = parser.parse_args().data
    print("| stream | states | accuracy | switches | first right | right for good | missed |")
    print("|---|---|---|---|---|---|---|")
    for steps in (60, 200, 600):
        train = rotating_states(random_state=0, run_length=steps)
        test = rotating_states(random_state=1, run_length=steps)
        for metric in ("auto", "euclidean", "mlat"):
            classifier = StreamClassifier(width=16, metric=metric).fit(train)
            report(
                f"synthetic, runs of {steps}, {metric}", classifier, test, np.ones(len(test), bool)
            )
    people = uci_people(["scma"], [f"scma:{p}" for p in DEVELOPMENT["scma"]], data)["scma"]
    for person in people.names:
        stream = people.load(person)
        parts = split(stream, "holdout", split_seed("scma", person, 0, "holdout"))
        classifier = StreamClassifier().fit(as_streams(parts).train)
        scaled = Stream(parts.train.values, stream.states, recordings=stream.recordings)
        report(f"SCMA {person}, auto", classifier, scaled, parts.apart)


if __name__ == "__main__":
    main()
