"""Real MQTT brokers on loopback, each in a process of its own that a test may kill."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

KINDS = ["amqtt", "mosquitto"]


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class Broker:
    """A broker that keeps its port over restarts.

    mosquitto keeps its sessions on disk, with every change at once; amqtt forgets them. A context
    manager: entering waits until it answers.

    Parameters
    ----------
    settings : str
        Lines of mosquitto's configuration.
    """

    def __init__(self, kind: str, folder: Path, settings: str = "") -> None:
        self.kind = kind
        self.port = free_port()
        self._folder = folder
        self._settings = settings or "allow_anonymous true\n"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()

    def start(self) -> None:
        command = self._mosquitto() if self.kind == "mosquitto" else self._amqtt()
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(f"{self.kind} ended with status {self._process.returncode}")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            time.sleep(0.02)
        raise RuntimeError(f"{self.kind} does not answer")

    def kill(self) -> None:
        """Like a power failure."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """In order: mosquitto then writes all it holds to disk."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait()

    def _mosquitto(self) -> list[str]:
        config = self._folder / "mosquitto.conf"
        config.write_text(
            f"listener {self.port} 127.0.0.1\n"
            f"user {getpass.getuser()}\n"
            "persistence true\n"
            f"persistence_location {self._folder}/\n"
            "autosave_interval 1\n"
            "autosave_on_changes true\n"
            "max_queued_messages 0\n" + self._settings
        )
        return [mosquitto_program(), "-c", str(config)]

    def _amqtt(self) -> list[str]:
        return [sys.executable, __file__, str(self.port)]


def mosquitto_program() -> str:
    return shutil.which("mosquitto") or ""


def need(kind: str) -> None:
    """Skip the test, with a reason, where this broker is not installed."""
    if kind == "mosquitto" and not mosquitto_program():
        pytest.skip("no mosquitto on PATH (apt-get install mosquitto puts it in /usr/sbin)")
    if kind == "amqtt":
        pytest.importorskip("amqtt")


def _run_amqtt(port: int) -> None:
    import asyncio
    import logging

    from amqtt.broker import Broker as Amqtt

    logging.disable(logging.CRITICAL)

    async def run() -> None:
        broker = Amqtt(
            {
                "listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{port}"}},
                "plugins": {
                    "amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}
                },
            }
        )
        await broker.start()
        # Its parent may be killed before it can end this one.
        while os.getppid() == parent:
            await asyncio.sleep(0.5)

    parent = os.getppid()
    asyncio.run(run())


if __name__ == "__main__":
    _run_amqtt(int(sys.argv[1]))
