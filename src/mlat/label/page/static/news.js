// The WebSocket: requests with their answers, and news of what anyone did. It reconnects by itself.
const FIRST_WAIT = 250; // milliseconds
const LONGEST_WAIT = 5000;

export class News {
  /**
   * @param take (message) => void, of every message that is no answer
   * @param onStatus (connected) => void
   */
  constructor(take, onStatus) {
    this.take = take;
    this.onStatus = onStatus;
    this.asked = new Map(); // the answers that are awaited, by number
    this.number = 0;
    this.wait = FIRST_WAIT;
    this.open();
  }

  open() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = (this.socket = new WebSocket(`${scheme}//${location.host}/news`));
    socket.onmessage = ({ data }) => {
      const message = JSON.parse(data);
      if (message.kind === "hello") {
        this.wait = FIRST_WAIT;
        this.onStatus(true);
      }
      if (message.kind !== "answer") this.take(message);
      else this.answer(message);
    };
    socket.onclose = () => {
      this.onStatus(false);
      for (const { resolve } of this.asked.values()) {
        resolve({ error: "The connection was lost before this was confirmed; look whether it was done." });
      }
      this.asked.clear();
      setTimeout(() => this.open(), this.wait);
      this.wait = Math.min(LONGEST_WAIT, 2 * this.wait);
    };
  }

  answer(message) {
    this.asked.get(message.id)?.resolve(message);
    this.asked.delete(message.id);
  }

  /** Resolves when the server has done it: {version, …} or {error}. */
  ask(what, more = {}) {
    if (this.socket.readyState !== WebSocket.OPEN) {
      return Promise.resolve({ error: "There is no connection to mlat; nothing was changed." });
    }
    const id = ++this.number;
    this.socket.send(JSON.stringify({ id, do: what, ...more }));
    return new Promise((resolve) => this.asked.set(id, { resolve }));
  }

  get pending() {
    return this.asked.size;
  }
}
