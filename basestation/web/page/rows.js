// The loaded part of the run: messages by arrival number, events, and the newest picture. Bounded.

const MOST_MESSAGES = 100000;
const MOST_EVENTS = 500;
const SPREAD_MS = 60000; // no message is drawn further than this from its arrival

export class Rows {
  constructor() {
    this.clear();
  }

  clear() {
    this.messages = []; // in order of arrival
    this.byKey = new Map();
    this.events = []; // newest last
    this.eventByKey = new Map();
    this.spread = 1000; // ms: the longest time from sending to delivery so far
    this.more = true; // older messages may exist
    this.version = (this.version ?? 0) + 1;
  }

  get full() {
    return this.messages.length >= MOST_MESSAGES;
  }

  get first() {
    return this.messages[0];
  }

  get last() {
    return this.messages.at(-1);
  }

  /** Take new rows, or changes of known rows. */
  take(rows) {
    const fresh = [];
    for (const row of rows) {
      if (typeof row.key === "string") this.#takeEvent(row);
      else {
        const known = this.byKey.get(row.key);
        if (known) this.#measure(Object.assign(known, row));
        else if (row.came_ms !== undefined) {
          this.byKey.set(row.key, row);
          fresh.push(row);
          this.#measure(row);
        }
      }
    }
    if (fresh.length) this.#insert(fresh);
    this.version += 1;
  }

  #measure(row) {
    const from = row.sent_ms ?? row.came_ms;
    const to = row.left_ms ?? row.came_ms;
    this.spread = Math.min(SPREAD_MS, Math.max(this.spread, to - from, row.came_ms - from));
  }

  #insert(fresh) {
    fresh.sort((one, other) => one.key - other.key);
    const older = this.last !== undefined && fresh[0].key < this.last.key;
    for (const row of fresh) this.messages.push(row);
    if (older) this.messages.sort((one, other) => one.key - other.key);
    if (this.messages.length > MOST_MESSAGES * 1.05) {
      for (const row of this.messages.splice(0, this.messages.length - MOST_MESSAGES)) this.byKey.delete(row.key);
      this.more = true;
    }
  }

  #takeEvent(row) {
    const known = this.eventByKey.get(row.key);
    if (known) {
      Object.assign(known, row);
      return;
    }
    if (row.at_ms === undefined) return; // a change of a dropped event
    this.eventByKey.set(row.key, row);
    this.events.push(row);
    if (this.events.length > 1 && row.at_ms < this.events.at(-2).at_ms) {
      this.events.sort((one, other) => one.at_ms - other.at_ms);
    }
    if (this.events.length > MOST_EVENTS) this.eventByKey.delete(this.events.shift().key);
  }

  /** The first and last index in `messages` of those that may touch these times. */
  range(from, to) {
    return [this.#at(from - this.spread), this.#at(to + this.spread)];
  }

  #at(ms) {
    let low = 0;
    let high = this.messages.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.messages[middle].came_ms < ms) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The newest message of this name that came before message number `before`. */
  find(name, before = Infinity) {
    for (let at = this.messages.length - 1; at >= 0; at -= 1) {
      if (this.messages[at].name === name && this.messages[at].key < before) return this.messages[at];
    }
    return null;
  }

  /** The messages that are known to be out of order, oldest first. */
  wrong() {
    return this.messages.filter((row) => row.wrong);
  }

  /** A message's causes and their causes, as [effect, cause, how], and the messages that name it as a cause. */
  cone(row, most = 24) {
    const pairs = [];
    const seen = new Set([row.key]);
    const open = [row];
    while (open.length && pairs.length < most) {
      const effect = open.shift();
      for (const { key, how } of effect.causes ?? []) {
        const cause = this.byKey.get(key);
        if (!cause) continue;
        pairs.push([effect, cause, how]);
        if (!seen.has(key)) open.push(cause);
        seen.add(key);
      }
    }
    const [from, to] = this.range(row.came_ms, row.came_ms + SPREAD_MS);
    const effects = [];
    for (let at = from; at < to && effects.length < most; at += 1) {
      const named = this.messages[at].causes?.find(({ key }) => key === row.key);
      if (named) effects.push([this.messages[at], row, named.how]);
    }
    return { causes: pairs, effects };
  }
}
