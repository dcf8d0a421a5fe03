"""What is done to a session while it is killed: a broker that restarts under it, and teaching."""

from __future__ import annotations

import contextlib
import getpass
import http.client
import json
import random
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlat.base.errors import InputError, require_package
from mlat.live.core.steps import Steps
from mlat.live.journal.records import Example, Input, Undone
from mlat.live.journal.verify import BrokenError
from mlat.live.sources.source import Arrival

TOPIC, CLIENT = "walk", "desk"
PIECE = 100  # messages that are published at once
RESTART = 0.1  # how often the broker is restarted after such a piece
TIMEOUT = 60.0  # seconds


class Broadcast:
    """Publishes a recording by a mosquitto of its own, which restarts now and then.

    It is a context manager, for one round. The messages have one step each, without a number.
    Those of a piece are all with the broker before it restarts: a publisher that loses its
    connection would send a message twice, and nobody could tell.

    Attributes
    ----------
    source : str
        For ``mlat live --source``.
    restarts : int
    """

    def __init__(self, recording: Steps, pace: float, folder: Path, chance: random.Random) -> None:
        require_package("aiomqtt", "live", "an MQTT source")
        self._recording, self._pace, self._chance = recording, pace, chance
        self._folder, self._port = folder, free_port()
        self.source = f"mqtt://127.0.0.1:{self._port}/{TOPIC}?client={CLIENT}"
        self.restarts = 0
        self._stopping = threading.Event()
        self._error: Exception | None = None

    def __enter__(self) -> Broadcast:
        program = shutil.which("mosquitto")
        if program is None:
            raise InputError("mosquitto is not on PATH; install it, for example by apt-get")
        self._folder.mkdir(parents=True)
        config = self._folder / "mosquitto.conf"
        config.write_text(
            f"listener {self._port} 127.0.0.1\nuser {getpass.getuser()}\nallow_anonymous true\n"
            f"persistence true\npersistence_location {self._folder}/\nmax_queued_messages 0\n"
        )
        self._command = [program, "-c", str(config)]
        self._start_broker()
        self._subscribe()
        self._thread = threading.Thread(target=self._publish, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._process.kill()
        self._process.wait()

    def through(self, said: Path) -> bool:
        """Whether all steps are published."""
        if self._error is not None:
            raise BrokenError(f"the recording could not be published: {self._error}")
        return not self._thread.is_alive()

    def _publish(self) -> None:
        try:
            publisher = self._connect("publisher")
            for begin in range(0, len(self._recording), PIECE):
                rows = self._recording.values[begin : begin + PIECE].tolist()
                sent = [
                    publisher.publish(TOPIC, json.dumps([None if v != v else v for v in row]), 1)
                    for row in rows
                ]
                for message in sent:
                    message.wait_for_publish(TIMEOUT)
                if self._chance.random() < RESTART:
                    _disconnect(publisher)
                    self._process.terminate()
                    self._process.wait()
                    self._start_broker()
                    publisher = self._connect("publisher")
                    self.restarts += 1
                if self._stopping.wait(PIECE / self._pace):
                    break
            _disconnect(publisher)
        except Exception as error:  # shown by the thread that kills
            self._error = error

    def _start_broker(self) -> None:
        with (self._folder / "mosquitto.log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise BrokenError(f"mosquitto ended; see {self._folder / 'mosquitto.log'}")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port)):
                return
            time.sleep(0.02)
        raise BrokenError("mosquitto does not answer")

    def _connect(self, name: str) -> Any:
        from paho.mqtt import client as mqtt

        client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, name, clean_session=False)
        client.connect("127.0.0.1", self._port)
        client.loop_start()
        return client

    def _subscribe(self) -> None:
        """Begin the session's subscription, so that the broker keeps what is published."""
        client, subscribed = self._connect(CLIENT), threading.Event()
        client.on_subscribe = lambda *_: subscribed.set()
        client.subscribe(TOPIC, qos=1)
        if not subscribed.wait(TIMEOUT):
            raise BrokenError("mosquitto does not answer a subscription")
        _disconnect(client)


def _disconnect(client: Any) -> None:
    client.disconnect()
    client.loop_stop()


def as_it_came(recording: Steps, inputs: Sequence[Input]) -> tuple[Steps, int]:
    """A recording in the order in which a broker sent it, and how many steps came early.

    When a client connects again mosquitto may send new steps ahead of a backlog. Without numbers
    nobody can tell. If the journal has not each step of the recording once, that is as it was.
    """
    place = {row.tobytes(): i for i, row in enumerate(recording.values)}
    arrivals = [one for one in inputs if isinstance(one, Arrival)]
    came = [row.tobytes() for one in arrivals for row in one.steps.values]
    order = np.array([place.get(row, -1) for row in came], dtype=np.int64)
    if not np.array_equal(np.sort(order), np.arange(len(recording))):
        return recording, 0
    least = np.minimum.accumulate(order[::-1])[::-1]  # of each step and all that came after it
    return Steps(recording.values[order]), int((order > least).sum())


UNDO = "(undo)"


class Teacher:
    """Teaches a session through its page, one example after the other, as long as it runs.

    Every fifth is undone; an undo is an example of ``UNDO``, of no windows. Several teachers have
    different states, and only one of them undoes.

    It is a context manager. Examples that follow each other differ, in their state or their number
    of windows, so that it can be told which of them are in a journal.

    Attributes
    ----------
    sent : list of (state, n, whether it was answered)
        Those that were refused are not among them.
    """

    def __init__(
        self, states: Sequence[Any], port: int, chance: random.Random, *, undoes: bool = True
    ) -> None:
        self._states, self._port, self._chance = list(states), port, chance
        self._undoes = undoes
        self.sent: list[tuple[Any, int, bool]] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._teach, daemon=True)

    def __enter__(self) -> Teacher:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._thread.join()

    def check(self, inputs: Sequence[Input]) -> str:
        """Check that every example that was answered is in a journal, once and in order."""
        kept = [
            (UNDO, 0) if isinstance(one, Undone) else (one.state, one.n)
            for one in inputs
            if (isinstance(one, Example) and one.state in self._states)
            or (isinstance(one, Undone) and self._undoes)
        ]
        # How many of those that are kept may have come so far: several numbers, since one that was
        # not answered may be there or not, and states and windows repeat after some time.
        come = {0}
        for state, n, answered in self.sent:
            here = {at + 1 for at in come if at < len(kept) and kept[at] == (state, n)}
            come = here if answered else come | here
            if not come:
                raise BrokenError(f"{n} windows of {state!r} were answered and are lost")
        if len(kept) not in come:
            raise BrokenError(f"an example of {kept[max(come)]} is there twice, or was never sent")
        n_answered = sum(answered for _, _, answered in self.sent)
        return f"{len(kept)} examples, among them all {n_answered} that were answered, each once"

    def _teach(self) -> None:
        number = 0
        while not self._stopping.wait(self._chance.uniform(0.0, 0.1)):
            state, n = self._states[number % len(self._states)], 1 + number % 7
            path, body = "/teach", json.dumps({"state": state, "n": n})
            if self._undoes and number % 5 == 4:
                (state, n), path, body = (UNDO, 0), "/undo", "{}"
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT)
            with contextlib.closing(connection):
                try:
                    connection.connect()
                except OSError:
                    continue  # the session is not there
                try:
                    connection.request("POST", path, body, {"Content-Type": "application/json"})
                    status = connection.getresponse().status
                except (OSError, http.client.HTTPException):
                    status = 0
            number += 1
            if status != 400:  # as it is before the first windows
                self.sent.append((state, n, status == 200))


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
