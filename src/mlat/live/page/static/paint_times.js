// The latency from a step's arrival at the server to its drawing here, and the frame rate.
const MOST_KEPT = 4096;

export class PaintTimes {
  constructor(element) {
    this.element = element;
    this.waiting = []; // arrival times of the steps that the next picture shows
    this.latencies = []; // milliseconds, one for every step
    this.times = []; // when pictures were done
    this.shown = 0;
    this.channel = new MessageChannel();
    this.channel.port1.onmessage = ({ data }) => this.done(data);
  }

  expect({ n, arrived: [oldest, newest] }) {
    if (this.waiting.length + n > MOST_KEPT) return;
    for (let i = 0; i < n; i++) this.waiting.push(oldest + ((newest - oldest) * i) / Math.max(1, n - 1));
  }

  /** Called after drawing; the message is delivered after the browser has painted the picture. */
  painted(paused) {
    if (paused) this.waiting = [];
    else if (this.waiting.length) this.channel.port2.postMessage(this.waiting.splice(0));
  }

  done(arrivals) {
    const now = Date.now();
    for (const arrival of arrivals) this.latencies.push(now - arrival);
    this.times.push(performance.now());
    if (this.latencies.length > 2 * MOST_KEPT) this.latencies.splice(0, MOST_KEPT);
    if (this.times.length > 2 * MOST_KEPT) this.times.splice(0, MOST_KEPT);
    if (now - this.shown > 1000) this.show(now);
  }

  show(now) {
    this.shown = now;
    if (!["localhost", "127.0.0.1", "[::1]"].includes(location.hostname)) return; // the server has another clock
    const recent = this.latencies.slice(-400).sort((a, b) => a - b);
    const begin = performance.now() - 2000;
    const pictures = this.times.filter((time) => time >= begin).length / 2;
    const p95 = recent[Math.floor(0.95 * (recent.length - 1))];
    this.element.textContent = `sample to paint ${Math.round(p95)} ms (p95), ${Math.round(pictures)} pictures a second`;
  }
}
