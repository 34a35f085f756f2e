// The values in the messages, as one curve for each mote, all on the same scale.

import { curve, extent, plot } from "./curves.js";
import { keepChildren, make, say, show } from "./dom.js";
import { durationText, measureText } from "./text.js";

const MOST_READ = 30000; // messages that are read, newest first

export class Values {
  constructor({ list, choice, note, span }, rows) {
    Object.assign(this, { list, choice, note, span, rows });
    this.chosen = null;
    span.addEventListener("change", () => this.refresh());
  }

  describe(hello, title) {
    this.values = hello.values ?? [];
    this.title = title;
    if (!this.values.some(({ name }) => name === this.chosen)) this.chosen = this.values[0]?.name ?? null;
    const button = ({ name }) =>
      make("button", { type: "button", "aria-pressed": String(name === this.chosen), onclick: () => this.#choose(name) }, name);
    this.choice.replaceChildren(...(this.values.length > 1 ? this.values.map(button) : []));
    this.list.replaceChildren();
    show(this.span.parentElement, this.values.length > 0);
    const none = "The deployment names no values, so the data of a message is shown in hex. [[data]] gives values a name and a unit.";
    say(this.note, this.values.length ? "" : none);
  }

  #choose(name) {
    this.chosen = name;
    for (const button of this.choice.children) button.setAttribute("aria-pressed", String(button.textContent === name));
    this.refresh();
  }

  /** Draw the chosen value of each mote, unless the panel is off the screen. */
  refresh() {
    if (!this.chosen || !this.list.offsetParent || !this.rows.last) return;
    const end = this.rows.last.came_ms;
    const from = end - Number(this.span.value);
    const series = new Map();
    const { messages } = this.rows;
    const recent = messages.slice(-MOST_READ).filter(({ came_ms }) => came_ms >= from);
    for (const row of recent.sort((one, other) => momentOf(other) - momentOf(one))) {
      const number = row.values?.[this.chosen];
      if (number === null || number === undefined) continue;
      if (!series.has(row.mote)) series.set(row.mote, { mote: row.mote, times: [], numbers: [] });
      series.get(row.mote).times.push(momentOf(row));
      series.get(row.mote).numbers.push(number);
    }
    const curves = [...series.values()].sort((one, other) => one.mote - other.mote);
    const range = extent(curves.flatMap(({ numbers }) => extent(numbers)));
    const unit = this.values.find(({ name }) => name === this.chosen)?.unit ?? "";
    const begun = Math.max(from, Math.min(...curves.map(({ times }) => times.at(-1)), end));
    keepChildren(this.list, curves, ({ mote }) => mote, ({ mote }) => this.#build(mote), (item, one) => {
      say(item.children[1], `${measureText(one.numbers[0])} ${unit}`.trim());
      plot(item.children[2], one.times.reverse(), one.numbers.reverse(), { range, span: [begun, end] });
    });
    const scale = range ? `All on one scale: ${measureText(range[0])} to ${measureText(range[1])} ${unit}`.trim() : "";
    say(this.note, range ? `${scale}; ${durationText(end - begun)} are shown.` : `No message with “${this.chosen}” in this time.`);
  }

  #build(mote) {
    const name = make("span", { class: "value-name" }, this.title(mote));
    return make("li", { class: "value" }, name, make("b"), curve(`${this.chosen} of ${this.title(mote)}`));
  }
}

/** The time of a message's event, which may have waited for the sending. */
function momentOf(row) {
  return row.event_ms ?? row.sent_ms ?? row.came_ms;
}
