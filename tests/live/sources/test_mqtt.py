"""MQTT against real brokers: nothing is lost or doubled when either side goes away."""

import asyncio
import contextlib
import gc
import inspect
import json
import logging
import os
import re
import shutil
import signal
import subprocess

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import brokers
from mlat import InputError
from mlat.live.sources import Arrival, Notice, Refusal, mqtt, open_source
from mlat.live.sources.mqtt import MOST_UNACKNOWLEDGED, Deliveries, MqttAddress

aiomqtt = pytest.importorskip("aiomqtt")

CHANNELS = ("ax", "ay")
TIMEOUT = 20


@pytest.fixture(scope="module", params=brokers.KINDS)
def broker(request, tmp_path_factory):
    """One for all tests that leave it alone."""
    brokers.need(request.param)
    with brokers.Broker(request.param, tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture
def new_broker(tmp_path):
    """Brokers that a test may kill."""
    with contextlib.ExitStack() as stack:

        def start(kind, settings=""):
            brokers.need(kind)
            return stack.enter_context(brokers.Broker(kind, tmp_path, settings))

        yield start


class Consumer:
    """Takes the events of a source; ``keep`` decides which arrivals it acknowledges."""

    def __init__(self, port, topic, *, query="", after="", keep=lambda arrival: True, **options):
        spec = f"mqtt://127.0.0.1:{port}/{topic}{query}"
        self.source = open_source(spec, **options)
        self.events, self.seq = [], []
        self.position = ""
        self.keep = keep
        self._after = after
        self._more = asyncio.Condition()

    async def __aenter__(self):
        await self.source.open(CHANNELS, self._after)
        self._task = asyncio.create_task(self._consume())
        return self

    async def __aexit__(self, *error):
        await self.source.close()
        await asyncio.wait_for(self._task, 5)

    async def _consume(self):
        async for event in self.source.events():
            self.events.append(event)
            if isinstance(event, Arrival):
                self.position = event.position
                if event.steps.seq is not None:
                    self.seq += event.steps.seq.tolist()
                kept = self.keep(event)
                if await kept if inspect.isawaitable(kept) else kept:
                    await self.source.acknowledge(event.position)
            async with self._more:
                self._more.notify_all()

    async def until(self, condition):
        async with self._more:
            await asyncio.wait_for(self._more.wait_for(condition), TIMEOUT)

    async def until_connected(self, times=1):
        await self.until(lambda: len(self.notices("connected")) >= times)

    def notices(self, kind):
        return [e.text for e in self.events if isinstance(e, Notice) and e.kind == kind]

    def refusals(self):
        return [e for e in self.events if isinstance(e, Refusal)]


async def publish(port, topic, payloads, *, qos=1, **options):
    async with aiomqtt.Client("127.0.0.1", port, **options) as client:
        for payload in payloads:
            await client.publish(topic, payload, qos=qos)


def numbered(*seq):
    return [json.dumps({"seq": n, "values": [n, None]}) for n in seq]


async def nothing_is_left(port, topic, query):
    """The broker has kept no message for this client: the next it gets is a new one."""
    async with Consumer(port, topic, query=query) as again:
        await again.until_connected()
        await publish(port, topic, numbered(9999))
        await again.until(lambda: again.seq)
    assert again.seq == [9999]
    assert not again.refusals()


# --- what is read ------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["json", "f4", "f8", "q+f4", "q+f8"])
def test_steps_come_as_they_were_published(broker, form):
    sent = np.arange(40.0).reshape(20, 2)
    batches = np.split(sent, [1, 5, 12])

    def payload(first, rows):
        if form == "json":
            return json.dumps(
                [{"seq": first + i, "values": r} for i, r in enumerate(rows.tolist())]
            )
        head = first.to_bytes(8, "little") if form.startswith("q") else b""
        return head + rows.astype(f"<{form[-2:]}").tobytes()

    async def run():
        topic = f"lab/{form.replace('+', '-')}"
        async with Consumer(broker.port, topic, query=f"?format={form}") as consumer:
            await consumer.until_connected()
            first = np.cumsum([0, *map(len, batches)]).tolist()
            payloads = [payload(at, b) for at, b in zip(first, batches, strict=False)]
            await publish(broker.port, topic, payloads)
            arrived = lambda: [e.steps for e in consumer.events if isinstance(e, Arrival)]  # noqa: E731
            await consumer.until(lambda: sum(map(len, arrived())) == 20)
        np.testing.assert_array_equal(np.concatenate([s.values for s in arrived()]), sent)
        if form not in ("f4", "f8"):
            assert consumer.seq == list(range(20))
        assert "without ?client=NAME" in consumer.notices("note")[0]
        address = f"mqtt://127.0.0.1:{broker.port}/{topic}"
        assert consumer.notices("connected") == [f"{address}: connected and subscribed"]

    asyncio.run(run())


def test_what_is_not_a_step_is_refused_and_the_rest_goes_on(broker):
    async def run():
        query = "?client=refusing"
        async with Consumer(broker.port, "lab/bad", query=query) as consumer:
            await consumer.until_connected()
            bad = [b"nonsense", b"[1]", b"[1,NaN]", b'[1,"2"]', b"", b"x" * 1_500_000, b"\xff[1,2]"]
            await publish(broker.port, "lab/bad", [bad[0], *numbered(1), *bad[1:]])
            await consumer.until(lambda: sum(r.count for r in consumer.refusals()) == len(bad))
        assert consumer.seq == [1]
        assert consumer.refusals()[0].reason.startswith("topic lab/bad: 'nonsense' is not JSON")
        await nothing_is_left(broker.port, "lab/bad", query)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"x" * 1_500_000, "1500000 bytes are too many; send at most 1048576"),
        (b"[1,2,3]", "3 values where the model has 2 channels"),
        (b'[[1,2],{"values":[1,2],"seq":1}]', "some of its steps have a seq or a time"),
        (b'[[1,2],[1,"a"]]', "step 1 of 2: channel 'ay' is 'a', which is not a number"),
    ],
)
def test_the_reason_names_the_topic_and_the_fault(broker, payload, reason):
    async def run():
        async with Consumer(broker.port, "lab/reason") as consumer:
            await consumer.until_connected()
            await publish(broker.port, "lab/reason", [payload])
            await consumer.until(consumer.refusals)
        [refusal] = consumer.refusals()
        assert refusal.reason.startswith(f"topic lab/reason: {reason}")

    asyncio.run(run())


def test_a_retained_value_of_the_past_is_no_step(broker):
    async def run():
        async with aiomqtt.Client("127.0.0.1", broker.port) as client:
            await client.publish("lab/retained", numbered(5)[0], qos=1, retain=True)
        async with Consumer(broker.port, "lab/retained") as consumer:
            await consumer.until(consumer.refusals)
            await publish(broker.port, "lab/retained", numbered(6))
            await consumer.until(lambda: consumer.seq)
        assert consumer.seq == [6]
        assert "it is retained, a value of the past" in consumer.refusals()[0].reason

    asyncio.run(run())


def test_messages_without_qos_are_taken_and_said_to_be_unsafe(broker):
    async def run():
        async with Consumer(broker.port, "lab/qos0") as consumer:
            await consumer.until_connected()
            await publish(broker.port, "lab/qos0", numbered(*range(200)), qos=0)
            await consumer.until(lambda: len(consumer.seq) == 200)
            if broker.kind != "amqtt":  # it delivers all by the QoS of the subscription
                await consumer.until(
                    lambda: any("published with QoS 0" in text for text in consumer.notices("note"))
                )
        assert consumer.seq == list(range(200))

    asyncio.run(run())


# --- nothing is lost or doubled ----------------------------------------------------------------


@pytest.mark.parametrize("kind", brokers.KINDS)
def test_a_broker_killed_in_mid_stream_costs_no_step(new_broker, kind):
    broker = new_broker(kind)

    async def run():
        query = "?client=arm"
        # When the broker dies, steps 40 to 49 are handed on but not yet acknowledged.
        unsafe = lambda arrival: arrival.steps.seq[-1] < 40 or unsafe.over  # noqa: E731
        unsafe.over = False
        async with Consumer(broker.port, "lab/arm", query=query, keep=unsafe) as consumer:
            await consumer.until_connected()
            await publish(broker.port, "lab/arm", numbered(*range(40)))
            await consumer.until(lambda: len(consumer.seq) == 40)
            await publish(broker.port, "lab/arm", numbered(*range(40, 50)))
            await consumer.until(lambda: len(consumer.seq) == 50)
            broker.kill()
            await consumer.until(lambda: consumer.notices("lost"))
            broker.start()
            await consumer.until_connected(times=2)
            unsafe.over = True
            await publish(broker.port, "lab/arm", numbered(*range(50, 100)))
            await consumer.until(lambda: len(consumer.seq) >= 100)
        assert consumer.seq == list(range(100))
        assert "the connection broke off; trying again in" in consumer.notices("lost")[0]
        forgotten = "which had not kept the session of 'arm'" in consumer.notices("connected")[1]
        assert forgotten == (kind == "amqtt")
        await nothing_is_left(broker.port, "lab/arm", query)

    asyncio.run(run())


def test_a_broker_that_is_restarted_under_a_publisher_costs_no_step(new_broker):
    broker = new_broker("mosquitto")

    async def run():
        from paho.mqtt.client import CallbackAPIVersion, Client

        sender = Client(CallbackAPIVersion.VERSION2, "sender", clean_session=False)
        sender.reconnect_delay_set(0.05, 0.2)
        sender.connect("127.0.0.1", broker.port)
        sender.loop_start()
        async with Consumer(broker.port, "lab/arm", query="?client=arm") as consumer:
            await consumer.until_connected()
            for n in range(200):
                # While it is not connected it says that this failed, and sends it later.
                sender.publish("lab/arm", numbered(n)[0], qos=1)
                if n == 100:
                    broker.stop()
                    broker.start()
            await consumer.until(lambda: set(consumer.seq) >= set(range(200)))
        sender.loop_stop()
        # What the publisher itself sends twice differs in nothing but its number.
        assert sorted(set(consumer.seq)) == list(range(200))

    asyncio.run(run())


def test_what_is_published_while_we_are_away_arrives(new_broker):
    broker = new_broker("mosquitto")  # amqtt keeps nothing for a client without a password

    async def run():
        query = "?client=away"
        async with Consumer(broker.port, "lab/arm", query=query) as consumer:
            await consumer.until_connected()
            await publish(broker.port, "lab/arm", numbered(*range(10)))
            await consumer.until(lambda: len(consumer.seq) == 10)
        await publish(broker.port, "lab/arm", numbered(*range(10, 60)))
        after = consumer.position
        async with Consumer(broker.port, "lab/arm", query=query, after=after) as again:
            await again.until(lambda: len(again.seq) >= 50)
        assert again.seq == list(range(10, 60))

    asyncio.run(run())


def test_a_crash_between_the_disk_and_the_acknowledgement_doubles_nothing(new_broker):
    broker = new_broker("mosquitto")  # amqtt forgets what it has sent and was not acknowledged

    async def run():
        query, never = "?client=crash", lambda arrival: False
        async with Consumer(broker.port, "lab/arm", query=query, keep=never) as consumer:
            await consumer.until_connected()
            await publish(broker.port, "lab/arm", numbered(*range(5)))
            await consumer.until(lambda: len(consumer.seq) == 5)
            on_disk = consumer.position  # written, and then the program is killed
            await publish(broker.port, "lab/arm", numbered(*range(5, 12)))
            await consumer.until(lambda: len(consumer.seq) == 12)
        # Not even the first five were acknowledged: without a position all come again, ...
        async with Consumer(broker.port, "lab/arm", query=query, keep=never) as again:
            await again.until(lambda: len(again.seq) >= 12)
        assert again.seq == list(range(12))
        # ... and behind the position only the others.
        async with Consumer(broker.port, "lab/arm", query=query, after=on_disk) as resumed:
            await resumed.until(lambda: len(resumed.seq) >= 7)
        assert resumed.seq == list(range(5, 12))
        await nothing_is_left(broker.port, "lab/arm", query)

    asyncio.run(run())


@pytest.mark.parametrize("qos", [0, 1])
def test_without_acknowledgement_reading_stops_and_later_goes_on(broker, qos):
    async def run():
        topic, query = f"lab/slow{qos}", f"?client=slow{qos}"
        never = lambda arrival: False  # noqa: E731
        async with Consumer(broker.port, topic, query=query, keep=never) as consumer:
            await consumer.until_connected()
            await publish(broker.port, topic, numbered(*range(150)), qos=qos)
            await consumer.until(lambda: len(consumer.seq) >= 20)
            # The broker has had its turn when it has answered another client.
            await publish(broker.port, "lab/other", [b"x"])
            assert len(consumer.seq) <= MOST_UNACKNOWLEDGED
            consumer.keep = lambda arrival: True
            await consumer.source.acknowledge(consumer.position)
            await consumer.until(lambda: len(consumer.seq) >= 150)
        assert consumer.seq == list(range(150))

    asyncio.run(run())


def test_a_broker_that_dies_while_we_do_not_read_costs_no_step(new_broker):
    settings = "allow_anonymous true\nmax_inflight_messages 0\n"  # it would send all at once
    broker = new_broker("mosquitto", settings)

    async def run():
        never = lambda arrival: False  # noqa: E731
        query = "?client=full"
        async with Consumer(broker.port, "lab/arm", query=query, keep=never) as consumer:
            await consumer.until_connected()
            await publish(broker.port, "lab/arm", numbered(*range(100)))
            await consumer.until(lambda: len(consumer.seq) == MOST_UNACKNOWLEDGED)
            # It does not see that the broker is gone before it reads again.
            broker.kill()
            broker.start()
            consumer.keep = lambda arrival: True
            await consumer.source.acknowledge(consumer.position)
            await consumer.until(lambda: len(consumer.seq) >= 100)
        assert consumer.seq == list(range(100))
        assert len(consumer.notices("lost")) == 1
        await nothing_is_left(broker.port, "lab/arm", query)

    asyncio.run(run())


LIMITS = {
    "default": "max_queued_messages 1000\n",  # brokers.Broker takes away this one
    "raised": "max_inflight_messages 2000\nmax_queued_messages 0\n",
    "none": "max_inflight_messages 0\nmax_queued_messages 0\n",
}


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("payload", ["numbered", "different", "equal"])
def test_a_broker_restarted_in_a_backlog_doubles_nothing(new_broker, limits, payload):
    """What it sends again comes over the whole connection, and not before the subscription alone.

    Most of the backlog is on its way through the network when the broker ends, and is received,
    kept and acknowledged to a broker that is no longer there.
    """
    settings = "allow_anonymous true\nautosave_on_changes false\nautosave_interval 1800\n"
    broker = new_broker("mosquitto", settings + LIMITS[limits])
    n = 900 if limits == "default" else 3000  # what the broker keeps
    payloads = {
        "numbered": numbered(*range(n)),
        "different": [json.dumps([i, 0]) for i in range(n)],
        "equal": ["[7, 0]"] * n,
    }[payload]

    async def run():
        values, backlog = [], asyncio.Event()

        async def slowly(event):
            await backlog.wait()
            await asyncio.sleep(0.01)
            values.extend(event.steps.values[:, 0].astype(int).tolist())
            return True

        query = "?client=backlog"
        async with Consumer(broker.port, "lab/arm", query=query, keep=slowly) as consumer:
            await consumer.until_connected()
            await publish(broker.port, "lab/arm", payloads)
            assert len(values) < n / 2
            backlog.set()
            for restart in range(1, 4):
                before = len(values)
                await asyncio.to_thread(broker.stop)
                broker.start()
                await consumer.until_connected(times=1 + restart)
                await consumer.until(lambda b=before: len(values) >= min(b + 100, n))
            await consumer.until(lambda: len(values) >= n)
        assert values == [json.loads(p)["seq"] if payload == "numbered" else json.loads(p)[0]
                          for p in payloads]  # fmt: skip
        await nothing_is_left(broker.port, "lab/arm", query)

    asyncio.run(run())


# --- brokers that do not answer ----------------------------------------------------------------


def test_a_broker_that_is_not_there_is_reported_at_each_try():
    async def run():
        async with Consumer(brokers.free_port(), "lab/arm", max_tries=3) as consumer:
            await consumer.until(lambda: consumer.notices("ended"))
        assert [text.partition(": ")[2].partition("; try")[0] for text in
                consumer.notices("retrying")] == ["connection refused"] * 2  # fmt: skip
        assert consumer.notices("ended")[0].endswith("connection refused; gave up after 3 tries")

    asyncio.run(run())


def test_one_that_comes_late_is_found(new_broker):
    broker = new_broker("amqtt")
    broker.kill()

    async def run():
        async with Consumer(broker.port, "lab/arm") as consumer:
            await consumer.until(lambda: consumer.notices("retrying"))
            broker.start()
            await consumer.until_connected()

    asyncio.run(run())


def test_one_that_says_nothing_does_not_delay_the_end():
    async def run():
        async def silent(reader, writer):
            await asyncio.sleep(60)

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        consumer = Consumer(port, "lab/arm")
        await consumer.__aenter__()
        await asyncio.sleep(0)
        begun = asyncio.get_running_loop().time()
        await consumer.__aexit__()
        # It waits for no answer of the broker.
        assert asyncio.get_running_loop().time() - begun < mqtt.TIMEOUT
        server.close()

    asyncio.run(run())


def test_one_that_answers_no_subscription_is_tried_again_and_asyncio_logs_nothing(
    monkeypatch, caplog
):
    monkeypatch.setattr(mqtt, "TIMEOUT", 0.2)

    async def run():
        async def half_a_broker(reader, writer):
            await reader.read(1)
            writer.write(b"\x20\x02\0\0")  # CONNACK
            await asyncio.sleep(0.3)
            writer.close()

        server = await asyncio.start_server(half_a_broker, "127.0.0.1", 0)
        async with Consumer(server.sockets[0].getsockname()[1], "lab/arm") as consumer:
            await consumer.until(lambda: len(consumer.notices("retrying")) > 2)
        await asyncio.sleep(0.5)
        server.close()

    asyncio.run(run())
    gc.collect()
    assert "never retrieved" not in caplog.text


def test_a_cancellation_that_a_library_swallows_does_not_keep_the_source_open():
    """As of a time limit that is over in the same moment: the source connected for ever."""

    async def run():
        source = open_source("mqtt://127.0.0.1:1/lab/arm")

        async def swallow_one():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
            await asyncio.sleep(60)

        source._task = asyncio.create_task(swallow_one())
        await asyncio.sleep(0)
        closing = asyncio.create_task(source.close())
        done, _ = await asyncio.wait([closing], timeout=20)
        assert done
        assert source._task.cancelled()

    asyncio.run(run())


def test_a_password_is_used_and_never_shown(new_broker, tmp_path, monkeypatch, caplog):
    tool = shutil.which("mosquitto_passwd")
    if tool is None:
        pytest.skip("mosquitto_passwd is not installed (apt-get install mosquitto)")
    secret = "s3cret/!"
    passwords = tmp_path / "passwords"
    subprocess.run([tool, "-c", "-b", passwords, "me", secret], check=True, capture_output=True)
    if os.geteuid() == 0:
        passwords.chmod(0o644)
    broker = new_broker("mosquitto", f"allow_anonymous false\npassword_file {passwords}\n")
    caplog.set_level(logging.DEBUG)

    async def connect(spec, **options):
        source = open_source(spec, **options)
        await source.open(CHANNELS)
        events = []
        async for event in source.events():
            events.append(event)
            if event.kind in ("connected", "ended"):
                await source.close()
        return source, events

    at = f"127.0.0.1:{broker.port}/lab/arm"
    tries = [f"mqtt://me:wr0ng-one@{at}", f"mqtt://me:s3cret%2F%21@{at}", f"mqtt://me@{at}"]
    monkeypatch.setenv("MLAT_MQTT_PASSWORD", secret)
    kinds = []
    for spec in tries:
        source, events = asyncio.run(connect(spec, max_tries=2))
        kinds.append(events[-1].kind)
        shown = f"{source.name} {events} {vars(source)} {caplog.text}"
        assert not any(word in shown for word in ("wr0ng", "s3cret"))
        if kinds[-1] == "ended":
            assert "not authorized" in events[-1].text.lower()
    assert kinds == ["ended", "connected", "connected"]


def test_tls_trusts_only_the_given_certificate(new_broker, tmp_path):
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed, which makes the certificate")
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        [
            *[openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"],
            *["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
            *["-keyout", key, "-out", certificate],
        ],
        check=True,
        capture_output=True,
    )
    broker = new_broker(
        "mosquitto", f"allow_anonymous true\ncertfile {certificate}\nkeyfile {key}\n"
    )

    async def run():
        untrusted = open_source(f"mqtts://127.0.0.1:{broker.port}/lab/arm", max_tries=1)
        await untrusted.open(CHANNELS)
        *_, last = [event async for event in untrusted.events()]
        assert "certificate verify failed" in last.text

        query = f"?client=tls&ca={certificate}"
        source = open_source(f"mqtts://127.0.0.1:{broker.port}/lab/arm{query}")
        await source.open(CHANNELS)
        seq = []
        async for event in source.events():
            if isinstance(event, Notice):
                import ssl

                tls = ssl.create_default_context(cafile=certificate)
                payloads = numbered(*range(100))
                await publish(broker.port, "lab/arm", payloads, tls_context=tls)
            if isinstance(event, Arrival):
                seq += event.steps.seq.tolist()
                await source.acknowledge(event.position)
            if len(seq) >= 100:
                await source.close()
        assert seq == list(range(100))

    asyncio.run(run())


# --- addresses ---------------------------------------------------------------------------------


def test_an_address_is_read():
    address = MqttAddress.parse("mqtts://me:p%40ss@[::1]:99/a/b%20c?client=x&format=q+f4")
    assert (address.host, address.port, address.topic) == ("::1", 99, "a/b c")
    assert (address.user, address.password, address.tls) == ("me", "p@ss", True)
    assert (address.client, address.form) == ("x", "q+f4")
    assert str(address) == "mqtts://[::1]:99/a/b c"
    assert MqttAddress.parse("mqtt://h/t").port == 1883
    assert MqttAddress.parse("mqtts://h/t").port == 8883


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("mqtt://me:secret@host/a/#", "wildcard"),
        ("mqtt://me:secret@host/a/+/b", "wildcard"),
        ("mqtt://me:secret@host/a/%23", "wildcard"),
        ("mqtt://me:secret@host", "names no topic"),
        ("mqtt://me:secret@/a", "names no host"),
        ("mqtt://me:secret@host:port/a", "a number for the port"),
        ("mqtt://me:1/secret@host/a", "an @ stands behind the host"),
        ("mqtt://me:sec#ret@host/a", "%23"),
        ("mqtt://me:secret@host/a?format=f2", "format=f2 is not known"),
        ("mqtt://me:secret@host/a?colour=red", "'colour' is not an option"),
        ("mqtt://me:secret@[host/a", "cannot be read"),
    ],
)
def test_a_bad_address_is_one_line_without_the_password(spec, reason):
    with pytest.raises(InputError) as raised:
        open_source(spec)
    assert reason in str(raised.value)
    assert "sec" not in str(raised.value).replace("second", "")
    assert "\n" not in str(raised.value)


def test_a_position_of_another_source_is_refused():
    key = "AAAAAAAA"
    for after in ("17", "x:", "1:no base64!", "1:AAAA", f"1:{key}:x", "1::5", f"1:{key}:40000"):
        with pytest.raises(InputError, match="was it another source"):
            asyncio.run(open_source("mqtt://h/t?client=x").open(CHANNELS, after))


# --- the accounts, against a broker that behaves as badly as it may -----------------------------


class Accounts(RuleBasedStateMachine):
    """A broker with a persistent session, a client that crashes, a network that loses packets.

    It counts packet numbers up, from near the last one, and sends any number at once.
    """

    MOST_KEPT = 300

    def __init__(self):
        super().__init__()
        self.published = 0
        self.kept_by_broker = {}  # packet -> number, as yet unacknowledged
        self.last_packet = 65_400
        self.sent = []  # (packet, again) on their way to the client
        self.acks = []  # on their way back
        self.handed_on, self.counts = [], {}
        self.on_disk, self.position = [], ""
        self.deliveries = Deliveries()
        self.deliveries.connected(False)

    def _transmit(self):
        self.acks += self.deliveries.to_acknowledge()

    def _new_packet(self):
        self.last_packet = self.last_packet % 65535 + 1
        return self.last_packet

    def _payload(self, number):
        return str(number // 3).encode()  # neighbours are equal

    @precondition(lambda self: len(self.kept_by_broker) < self.MOST_KEPT)
    @rule(n=st.sampled_from([1, 3, 50]))
    def publish(self, n):
        for _ in range(min(n, self.MOST_KEPT - len(self.kept_by_broker))):
            packet = self._new_packet()
            self.kept_by_broker[packet] = self.published
            self.sent.append((packet, False))
            self.published += 1

    @precondition(lambda self: self.sent and not self.deliveries.full)
    @rule(n=st.sampled_from([1, 4, 60]))
    def deliver(self, n):
        n = min(n, MOST_UNACKNOWLEDGED)
        for packet, again in self.sent[:n]:
            number = self.kept_by_broker[packet]
            count = self.deliveries.receive(packet, self._payload(number), again=again)
            if count is not None:
                self.handed_on.append(number)
                self.counts[count] = len(self.handed_on)
        del self.sent[:n]
        self._transmit()

    @precondition(lambda self: len(self.on_disk) < len(self.handed_on))
    @rule(data=st.data(), tells=st.booleans())
    def keep(self, data, tells):
        at = data.draw(st.integers(len(self.on_disk) + 1, len(self.handed_on)))
        count = next(c for c, length in self.counts.items() if length == at)
        self.on_disk, self.position = self.handed_on[:at], self.deliveries.position(count)
        if tells:
            self.deliveries.keep(self.position)
            self._transmit()

    @rule(n=st.integers(1, 5))
    def acks_arrive(self, n):
        for packet in self.acks[:n]:
            self.kept_by_broker.pop(packet, None)
        del self.acks[:n]

    @rule()
    def connection_is_lost(self):
        self.acks = []
        self.sent = [(packet, True) for packet in self.kept_by_broker]
        self.deliveries.connected(True)
        if self.position:
            self.deliveries.keep(self.position)
        self._transmit()

    @rule()
    def program_is_killed(self):
        self.deliveries = Deliveries(self.position)
        self.handed_on = list(self.on_disk)
        self.counts = {}
        if self.position:
            self.counts[int(self.position.partition(":")[0])] = len(self.on_disk)
        self.connection_is_lost()

    @invariant()
    def nothing_is_lost_doubled_or_out_of_order(self):
        assert self.handed_on == list(range(len(self.handed_on)))

    @invariant()
    def the_broker_forgets_only_what_is_on_disk(self):
        kept = set(self.on_disk) | set(self.kept_by_broker.values())
        assert kept >= set(range(self.published))

    @invariant()
    def memory_is_bounded(self):
        every_key = self.deliveries.position(self.published).split(":")[1]
        assert len(every_key) <= MOST_UNACKNOWLEDGED * 8  # a key is 8 characters
        assert len(self.position) < 600


class ReusedNumbers(Accounts):
    """A broker that gives the lowest free packet number, and has few messages on their way."""

    MOST_KEPT = 50

    def _new_packet(self):
        return min(set(range(1, self.MOST_KEPT + 1)) - set(self.kept_by_broker))

    def _payload(self, number):
        return str(number).encode()  # equal ones under one number could not be told apart


for machine in (Accounts, ReusedNumbers):
    machine.TestCase.settings = settings(max_examples=100, stateful_step_count=60, deadline=None)
TestAccounts = Accounts.TestCase
TestReusedNumbers = ReusedNumbers.TestCase


def test_equal_messages_are_told_apart_by_their_numbers_all_the_way_round():
    deliveries, packet, received = Deliveries(), 0, 0
    for _ in range(10):  # each time the connection is lost, with 20,000 acknowledgements
        again = [(packet - 20_000 + i) % 65535 + 1 for i in range(20_000)] if packet else []
        deliveries.connected(bool(packet))
        assert {deliveries.receive(old, b"x", again=True) for old in again} <= {None}
        for _ in range(30_000):
            packet = packet % 65535 + 1
            received += 1
            # Some were on their way when the connection was lost.
            assert deliveries.receive(packet, b"x", again=received % 30_000 < 5000) == received
        deliveries.keep(deliveries.position(received))
        assert deliveries.to_acknowledge()
        deliveries = Deliveries(deliveries.position(received))
    assert received == 300_000


def test_numbers_that_are_given_again_are_those_of_other_messages():
    deliveries = Deliveries()
    deliveries.connected(False)
    for packet, payload in ((1, b"a"), (2, b"b"), (1, b"c")):
        deliveries.receive(packet, payload, again=False)
    # 1 was used anew, so "a" was acknowledged; "b" may have been or not.
    assert deliveries.receive(2, b"b", again=True) is None
    assert deliveries.receive(1, b"a", again=True) == 4


def test_a_position_of_an_earlier_version_is_read():
    deliveries = Deliveries()
    deliveries.connected(False)
    for packet in (1, 2, 3):
        deliveries.receive(packet, b"x", again=False)
    resumed = Deliveries(deliveries.position(2).rpartition(":")[0])
    resumed.connected(True)
    assert [resumed.receive(packet, b"x", again=True) for packet in (1, 2, 3)] == [None, None, 3]


def test_a_refused_message_is_acknowledged_in_its_turn():
    deliveries = Deliveries()
    deliveries.connected(False)
    for packet in (1, 2, 3):
        deliveries.receive(packet, b"x", again=False)
    deliveries.refuse(2)
    assert deliveries.to_acknowledge() == []
    deliveries.keep(deliveries.position(1))
    assert deliveries.to_acknowledge() == [1, 2]
    deliveries.refuse(3)
    assert deliveries.to_acknowledge() == [3]


def test_the_same_packet_of_a_forgotten_session_is_another_message():
    deliveries = Deliveries()
    deliveries.connected(False)
    assert deliveries.receive(1, b"x", again=False) == 1
    deliveries.connected(False)
    assert deliveries.receive(1, b"x", again=True) == 2


def payloads_of(numbers):
    return [f'{{"values": [{number}]}}'.encode() for number in numbers]


def test_a_broker_that_goes_on_from_an_older_state_doubles_nothing():
    """It sends what it had kept then, under other numbers and without a mark."""
    deliveries = Deliveries()
    deliveries.connected(True)
    for i, payload in enumerate(payloads_of(range(3000))):
        assert deliveries.receive(i % 65535 + 1, payload, again=False) == i + 1
    deliveries.keep(deliveries.position(3000))
    deliveries.to_acknowledge()
    deliveries.connected(True)
    for i, payload in enumerate(payloads_of(range(2100, 2950))):
        assert deliveries.receive(i + 40, payload, again=i % 2 == 0) is None
    assert len(deliveries.to_acknowledge()) == 850
    for i, payload in enumerate(payloads_of(range(3000, 3010))):
        assert deliveries.receive(i + 1000, payload, again=False) == 3001 + i
    assert deliveries.take_recognised() == 850
    # Later one may well be like one before.
    assert deliveries.receive(2000, payloads_of([2500])[0], again=False) == 3011


def test_payloads_that_repeat_are_never_taken_for_those_before():
    deliveries = Deliveries()
    deliveries.connected(True)
    for i in range(3000):
        deliveries.receive(i + 1, payloads_of([i % 900])[0], again=False)
    deliveries.connected(True)
    assert deliveries.receive(40, payloads_of([17])[0], again=False) == 3001


def test_what_comes_again_without_a_mark_is_doubtful_where_its_content_does_not_tell():
    """Payloads repeat, and the broker goes back by 500 messages and gives their numbers again."""
    deliveries, payloads = Deliveries(), payloads_of([i % 50 for i in range(2200)])
    deliveries.connected(True)

    def receive(first, last):
        doubtful = 0
        for i in range(first, last):
            assert deliveries.receive(i + 1, payloads[i], again=False)
            doubtful += deliveries.is_doubtful
        return doubtful

    assert receive(0, 2000) == 0
    deliveries.connected(True)  # a connection that was only lost
    assert receive(2000, 2100) == 0
    deliveries.connected(True)
    assert receive(1600, 2110) == 500  # and ten new ones
    assert receive(2110, 2120) == 0


def test_a_number_and_a_rare_content_tell_of_a_message_after_a_restart():
    """The position knows the last 64 by both, those before by their number alone."""
    before, payloads = Deliveries(), payloads_of([*range(2000), 5, 5, *range(2002, 2200)])
    before.connected(True)
    for i in range(2100):
        before.receive(i + 1, payloads[i], again=False)
    deliveries = Deliveries(before.position(2100))
    deliveries.connected(True)
    found = []
    for i in range(1900, 2110):
        taken = deliveries.receive(i + 1, payloads[i], again=False) is not None
        found.append("left out" if not taken else "doubtful" if deliveries.is_doubtful else "new")
    assert found == 136 * ["doubtful"] + 64 * ["left out"] + 10 * ["new"]


@pytest.mark.parametrize(("period", "restarts"), [(None, False), (50, False), (1, True)])
def test_a_killed_mosquitto_doubles_nothing_in_silence(new_broker, period, restarts):
    """It is killed after we acknowledged what is kept in the state that it had written.

    Payloads that differ tell what comes again, those that repeat do not. All of what is doubled is
    counted.
    """
    settings = "allow_anonymous true\nautosave_on_changes false\nautosave_interval 1800\n"
    broker = new_broker("mosquitto", settings)
    query = "?client=arm"

    async def run():
        values, may_take = [], asyncio.Event()

        async def take(event):
            await may_take.wait()
            values.extend(event.steps.values[:, 0].astype(int).tolist())
            return True

        async def send(first, last):
            some = [json.dumps([i % (period or last), 0]) for i in range(first, last)]
            await publish(broker.port, "lab/arm", some)

        async with Consumer(broker.port, "lab/arm", query=query, keep=take) as consumer:
            await consumer.until_connected()
            may_take.set()
            await send(0, 1500)
            await consumer.until(lambda: len(values) == 1500)
            may_take.clear()
            await send(1500, 2100)
            broker._process.send_signal(signal.SIGUSR1)  # it writes its state
            await asyncio.sleep(0.5)
            may_take.set()
            await consumer.until(lambda: len(values) == 2100)
            broker.kill()
            await consumer.until(lambda: consumer.notices("lost"))
            events = [*consumer.events]
            if not restarts:
                broker.start()
                await consumer.until_connected(times=2)
                await send(2100, 2110)
                await consumer.until(lambda: len(values) >= (2110 if period is None else 2690))
                events = consumer.events
        if restarts:
            broker.start()
            options = {"query": query, "keep": take, "after": consumer.position}
            async with Consumer(broker.port, "lab/arm", **options) as consumer:
                await consumer.until_connected()
                await send(2100, 2110)
                await consumer.until(lambda: len(values) >= 2690)
                events += consumer.events
        doubtful = sum(event.doubtful for event in events if isinstance(event, Notice))
        said = [event.text for event in events if isinstance(event, Notice)]
        assert any("publish seq" in text for text in said)
        assert len(values) == 2110 + doubtful, "doubled in silence"
        if period is None:
            assert values == list(range(2110))
            assert any(re.search(r"\d+ messages came twice, without a mark", one) for one in said)
        else:
            assert doubtful == 580

    asyncio.run(run())
