"""``mqtt://[user[:password]@]host[:port]/topic[?client=…&format=…]``, and what it may hold."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from ...errors import InputError
from .payloads import is_format

PORTS = {"mqtt": 1883, "mqtts": 8883}
PASSWORD_VARIABLE = "MLAT_MQTT_PASSWORD"
_FORM = "write mqtt://[user[:password]@]host[:port]/topic"


@dataclass(frozen=True)
class MqttAddress:
    """Where a broker is and what to ask of it. Its text never shows the password.

    Attributes
    ----------
    client : str
        The name under which the broker keeps what was not delivered; "" for none.
    form : str
        See `payloads.decode`.
    ca : str
        File of the certificates to trust, instead of the system's.
    """

    host: str
    port: int
    topic: str
    tls: bool = False
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    client: str = ""
    form: str = "json"
    ca: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"mqtt{'s' if self.tls else ''}://{host}:{self.port}/{self.topic}"

    @classmethod
    def parse(cls, spec: str) -> MqttAddress:
        """Read an address; `InputError` never repeats the part that may hold a password.

        >>> print(MqttAddress.parse("mqtt://me:secret@broker/lab/arm?client=arm-1&format=q+f4"))
        mqtt://broker:1883/lab/arm
        """
        try:
            parts = urlsplit(spec)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise InputError(
                f"the address of the broker cannot be read; {_FORM}, with a number for the port, "
                "and / : @ ? # in a user or password as %2F %3A %40 %3F %23"
            ) from None
        if parts.scheme not in PORTS:
            raise InputError(f"a broker's address begins with mqtt:// or mqtts://; {_FORM}")
        if "@" in parts.path + parts.query + parts.fragment:
            raise InputError(
                "an @ stands behind the host of the broker's address; write @ in a topic as %40, "
                "and / ? # in a password as %2F %3F %23"
            )
        if not host:
            raise InputError(f"the broker's address names no host; {_FORM}")
        topic = unquote(parts.path.removeprefix("/"))
        _check_topic(topic, has_fragment="#" in spec.rpartition("@")[2])
        asked = _query(parts.query)
        if not is_format(asked["format"]):
            raise InputError(
                f"format={asked['format']} is not known; write json, f4, f8, q+f4 or q+f8"
            )
        return cls(
            host=host,
            port=port or PORTS[parts.scheme],
            topic=topic,
            tls=parts.scheme == "mqtts",
            user=None if parts.username is None else unquote(parts.username),
            password=_password(parts.password, parts.username),
            client=asked["client"],
            form=asked["format"],
            ca=asked["ca"],
        )


def _check_topic(topic: str, *, has_fragment: bool) -> None:
    if has_fragment or "+" in topic or "#" in topic:
        raise InputError(
            "the topic has a wildcard (+ or #), which may bring several streams; a session "
            "classifies one stream: name its topic in full"
        )
    if not topic:
        raise InputError(f"the broker's address names no topic; {_FORM}")
    if "\0" in topic or len(topic.encode("utf-8", "surrogatepass")) > 65535:
        raise InputError("the topic is too long or holds a zero byte; MQTT allows neither")


def _query(query: str) -> dict[str, str]:
    asked = {"client": "", "format": "json", "ca": ""}
    for item in query.split("&") if query else []:
        name, _, value = item.partition("=")
        if name not in asked or not value:
            raise InputError(
                f"{name!r} is not an option of a broker's address; it takes ?client=NAME, "
                "?format=json|f4|f8|q+f4|q+f8 and ?ca=FILE, joined by &"
            )
        asked[name] = unquote(value)  # a + stays a +, unlike in web forms
    return asked


def _password(written: str | None, user: str | None) -> str | None:
    if written is not None:
        return unquote(written)
    return os.environ.get(PASSWORD_VARIABLE) if user is not None else None
