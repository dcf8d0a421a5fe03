// How long after its arrival at the server a step is drawn here, and how many pictures a second.
const KEPT = 4096;

export class Paints {
  constructor(element) {
    this.element = element;
    this.waiting = []; // arrivals of the steps that the next picture shows
    this.latencies = []; // milliseconds, of every step
    this.times = []; // when pictures were done
    this.shown = 0;
    this.channel = new MessageChannel();
    this.channel.port1.onmessage = ({ data }) => this.done(data);
  }

  expect({ n, arrived: [oldest, newest] }) {
    if (this.waiting.length + n > KEPT) return;
    for (let i = 0; i < n; i++) this.waiting.push(oldest + ((newest - oldest) * i) / Math.max(1, n - 1));
  }

  /** Called where a picture was drawn: it is on its way to the screen once the browser comes back. */
  painted(stands) {
    if (stands) this.waiting = [];
    else if (this.waiting.length) this.channel.port2.postMessage(this.waiting.splice(0));
  }

  done(arrivals) {
    const now = Date.now();
    for (const arrival of arrivals) this.latencies.push(now - arrival);
    this.times.push(performance.now());
    if (this.latencies.length > 2 * KEPT) this.latencies.splice(0, KEPT);
    if (this.times.length > 2 * KEPT) this.times.splice(0, KEPT);
    if (now - this.shown > 1000) this.show(now);
  }

  show(now) {
    this.shown = now;
    if (!["localhost", "127.0.0.1", "[::1]"].includes(location.hostname)) return; // another clock
    const recent = this.latencies.slice(-400).sort((a, b) => a - b);
    const begin = performance.now() - 2000;
    const pictures = this.times.filter((time) => time >= begin).length / 2;
    const p95 = recent[Math.floor(0.95 * (recent.length - 1))];
    this.element.textContent = `sample to paint ${Math.round(p95)} ms (p95), ${Math.round(pictures)} pictures a second`;
  }
}
