// The source of rows: the server's stream, or a recording inside this file. Both have the same interface, but a file
// cannot try out a policy.

const RETRY_MS = [500, 1000, 2000, 5000];
const QUIET_MS = 8000; // a live server sends a picture every second; after this time without one, it counts as lost

export class Live {
  constructor(on) {
    this.on = on; // hello, rows, picture, lost, back
    this.lostSince = null;
    this.tries = 0;
    this.offset = 0; // from this machine's clock to the base station's
    this.hello = null;
    this.canTry = true;
  }

  start() {
    const source = new EventSource("stream");
    this.source = source;
    const hear = (name, use) =>
      source.addEventListener(name, (event) => {
        this.#alive();
        use(JSON.parse(event.data));
      });
    hear("hello", (hello) => {
      this.hello = hello;
      this.on.hello(hello);
    });
    hear("rows", (rows) => this.on.rows(rows));
    hear("picture", (picture) => {
      const offset = picture.at_ms - Date.now();
      const far = Math.abs(offset - this.offset) > 500;
      this.offset = far ? offset : this.offset * 0.8 + offset * 0.2;
      this.on.picture(picture);
    });
    source.onerror = () => this.#lose();
  }

  /** The base station's time now. */
  now() {
    return Date.now() + this.offset;
  }

  #alive() {
    if (this.lostSince !== null) this.on.back(this.lostSince);
    this.lostSince = null;
    this.tries = 0;
    clearTimeout(this.watch);
    this.watch = setTimeout(() => (this.hello?.live ? this.#lose() : null), QUIET_MS);
  }

  #lose() {
    this.source.close();
    clearTimeout(this.watch);
    clearTimeout(this.retry);
    this.lostSince ??= Date.now();
    this.on.lost(this.lostSince);
    this.retry = setTimeout(() => this.start(), RETRY_MS[Math.min(this.tries, RETRY_MS.length - 1)]);
    this.tries += 1;
  }

  older(beforeMs) {
    return ask(`rows?${new URLSearchParams({ before: beforeMs, limit: 5000 })}`);
  }

  why(row) {
    return ask(`why?${new URLSearchParams({ row: row.key })}`);
  }

  trial(policy) {
    return ask(`trial?${new URLSearchParams(policy)}`);
  }

  changePolicy(policy) {
    return tell("policy", policy);
  }

  command(mote, setting) {
    return tell("command", { mote, setting });
  }
}

/** A recorded run inside the page. */
export class Recording {
  constructor(on, recording) {
    this.on = on;
    this.recording = recording;
    this.canTry = false;
  }

  start() {
    const { hello, rows, picture } = this.recording;
    this.end = rows.reduce((end, row) => Math.max(end, row.left_ms ?? 0, row.came_ms ?? 0, row.at_ms ?? 0), 0);
    this.on.hello({ ...hello, live: false, control: false });
    this.on.rows(rows);
    if (picture) this.on.picture(picture);
  }

  now() {
    return this.end;
  }

  async older() {
    return { rows: [], more: false };
  }

  async why(row) {
    const text = this.recording.why?.[row.key];
    if (!text) throw new Error("This file explains only messages that were out of order.");
    return { text, violations: [] };
  }
}

/** The recording in this file, or null. */
export function recordingHere() {
  const element = document.getElementById("recording");
  return element ? JSON.parse(element.textContent) : null;
}

async function ask(path, options) {
  const answer = await fetch(path, options).catch(() => {
    throw new Error("The base station does not answer.");
  });
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(body.error ?? `The base station answered ${answer.status}.`);
  return body;
}

function tell(path, body) {
  return ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
}
