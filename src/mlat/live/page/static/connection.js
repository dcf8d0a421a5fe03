// The WebSocket to the server: reconnects by itself, and goes on from the first missing step.
import { decode } from "./frame.js";

const FIRST_WAIT = 250; // milliseconds
const LONGEST_WAIT = 5000;

/**
 * @param position () => {stream, next}: what has been seen, to go on from; or null
 * @param take (frame) => void
 * @param onStatus (kind, text) => void: "live", "waiting" or "refused"
 */
export function connect(position, take, onStatus) {
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
        onStatus("live", "Live");
      }
      take(frame);
      // Only after it is processed: a page that cannot keep up is then sent less.
      if (frame.kind === "steps" && socket.readyState === WebSocket.OPEN) {
        socket.send('{"ack":1}');
      }
    };
    socket.onclose = async () => {
      socket = null;
      const again = wait * (0.75 + Math.random() / 2); // so that many pages do not come back at once
      wait = Math.min(LONGEST_WAIT, 2 * wait);
      timer = setTimeout(open, again);
      const seconds = Math.max(1, Math.round(again / 1000));
      onStatus("waiting", `Connection lost; trying again in ${seconds} s`);
      if (!greeted) await explain();
    };
  }

  /** A browser does not say why a WebSocket was refused; /healthz does. */
  async function explain() {
    try {
      const answer = await fetch("/healthz", { cache: "no-store" });
      if (answer.status === 401) onStatus("refused", "A token is needed: open this page as /?token=…");
      const { clients, max_clients: most } = await answer.json();
      if (clients >= most) onStatus("refused", `${most} pages are watching already; trying again`);
    } catch {
      // no server at all: the text stays
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
