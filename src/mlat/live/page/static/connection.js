// The WebSocket to the server: comes back by itself, and goes on from the step that is missing.
import { decode } from "./frame.js";

const FIRST_WAIT = 250;
const LONGEST_WAIT = 5000;

/**
 * @param position () => {stream, next}: what has been seen, to go on from; or null
 * @param take (frame) => void
 * @param told (kind, text) => void: "live", "waiting" or "refused"
 */
export function connect(position, take, told) {
  let wait = FIRST_WAIT;
  let timer = null;
  let socket = null;

  function open() {
    timer = null;
    const seen = position();
    const query = seen ? `?stream=${encodeURIComponent(seen.stream)}&since=${seen.next}` : "";
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    let greeted = false;
    socket = new WebSocket(`${scheme}//${location.host}/frames${query}`);
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({ data }) => {
      const frame = decode(data);
      if (frame.kind === "hello") {
        greeted = true;
        wait = FIRST_WAIT;
        told("live", "Live");
      }
      take(frame);
      // Said once it is taken in: a page that cannot keep up is then sent less.
      if (frame.kind === "steps" && socket.readyState === WebSocket.OPEN) {
        socket.send('{"ack":1}');
      }
    };
    socket.onclose = async () => {
      socket = null;
      const again = wait * (0.75 + Math.random() / 2); // so that many pages do not come at once
      wait = Math.min(LONGEST_WAIT, 2 * wait);
      timer = setTimeout(open, again);
      const seconds = Math.max(1, Math.round(again / 1000));
      told("waiting", `Connection lost; trying again in ${seconds} s`);
      if (!greeted) await explain();
    };
  }

  /** A browser does not tell a page why its WebSocket was refused; the server does. */
  async function explain() {
    try {
      const answer = await fetch("/healthz", { cache: "no-store" });
      if (answer.status === 401) told("refused", "A token is needed: open this page as /?token=…");
      const { clients, max_clients: most } = await answer.json();
      if (clients >= most) told("refused", `${most} pages are watching already; trying again`);
    } catch {
      // not there at all: what was told stands
    }
  }

  function now() {
    if (timer === null) return;
    clearTimeout(timer);
    open();
  }
  addEventListener("online", now);
  document.addEventListener("visibilitychange", () => document.hidden || now());
  open();
}
