// The explanation of one message: its way, why it was held, its causes, its violations.

import { byId, make, say, show } from "./dom.js";
import { clockText, countText, durationText, measureText } from "./text.js";

const STATES = {
  held: "held: it has not left yet",
  tentative: "tentative: it waits for others by name",
  final: "final: it has left",
  discarded: "discarded",
};
const WRONG = { delivery: "Delivered out of order", arrival: "Came out of order, delivered in order" };
const HOW = { order: "its mote's message before", stamp: "named by the stamp", receipt: "named by a receipt" };

export class Details {
  constructor(source, rows, on) {
    Object.assign(this, { source, rows, on }); // on: go(row), closed()
    this.panel = byId("details");
    this.row = null;
    this.said = null;
    byId("details-close").addEventListener("click", () => this.close());
  }

  async open(row, title) {
    this.row = row;
    this.title = title;
    this.said = row.state;
    show(this.panel, true);
    this.refresh();
    const text = byId("details-text");
    text.replaceChildren(make("p", { class: "soft" }, "Asking why …"));
    const mine = row.key;
    const lines = await this.#explained(row);
    if (this.row?.key === mine) text.replaceChildren(...lines);
  }

  async #explained(row) {
    try {
      const { text, violations } = await this.source.why(row);
      const wrong = (violations ?? []).map((line) => make("p", { class: `violation ${row.wrong ?? ""}` }, line));
      const indented = (line) => make("p", { class: line.startsWith(" ") ? "indented" : "" }, line.trim());
      return [...wrong, ...text.map(indented)];
    } catch (error) {
      return [make("p", {}, ownWords(row)), make("p", { class: "soft" }, error.message)];
    }
  }

  close() {
    if (!this.row) return;
    this.row = null;
    show(this.panel, false);
    this.on.closed();
  }

  /** Show the row, which may have changed since. */
  refresh() {
    const { row } = this;
    if (!row) return;
    if (this.said !== row.state && this.said !== null) this.open(row, this.title); // the explanation has changed
    say(byId("details-name"), row.name);
    say(byId("details-mote"), `${this.title(row.mote)}, boot ${row.boot}`);
    const wrong = WRONG[row.wrong];
    const chips = [[STATES[row.state] ?? row.state, row.state]];
    if (wrong) chips.unshift([wrong, row.wrong]);
    if (row.late) chips.push(["late", "warn"]);
    if (row.again) chips.push(["sent again: the gateway missed it", ""]);
  if (row.in_sync === false) chips.push(["out of sync", "warn"]);
    if (row.concurrent) chips.push(["concurrent with its neighbours", ""]);
    if (row.moved) chips.push([`moved ${row.moved} places`, ""]);
    if (row.gave_up) chips.push([row.gave_up, "warn"]);
    byId("details-chips").replaceChildren(...chips.map(([text, kind]) => make("span", { class: `chip ${kind}` }, text)));
    byId("details-way").replaceChildren(...wayOf(row).map(([name, text]) => make("div", {}, make("dt", {}, name), make("dd", {}, text))));
    byId("details-causes").replaceChildren(...(row.causes ?? []).map((cause) => this.#cause(cause)));
    show(byId("details-causes").parentElement, Boolean(row.causes?.length));
  }

  #cause({ key, name, how }) {
    const known = this.rows.byKey.get(key);
    const text = make("span", { class: "soft" }, ` ${HOW[how] ?? how}${known ? "" : ", not loaded"}`);
    if (!known) return make("li", {}, make("b", {}, name), text);
    return make("li", {}, make("button", { type: "button", onclick: () => this.on.go(known) }, make("b", {}, name), text));
  }
}

/** The stations of a message, with times. */
function wayOf(row) {
  const way = [];
  if (row.event_ms !== null && row.event_ms !== undefined) {
    way.push(["Event", `${clockText(row.event_ms, true)}${row.event_or_before ? " or before" : ""}`]);
  }
  if (row.sent_ms !== null && row.sent_ms !== undefined) way.push(["Sent", clockText(row.sent_ms, true)]);
  const travelled = row.sent_ms ? `, ${durationText(row.came_ms - row.sent_ms)} later` : "";
  way.push(["Came", clockText(row.came_ms, true) + travelled]);
  if (row.left_ms) way.push(["Left", `${clockText(row.left_ms, true)}, held ${durationText(row.held_ms ?? row.left_ms - row.came_ms)}`]);
  if (row.place !== null && row.place !== undefined) way.push(["Place", `number ${countText(row.place)} in the order`]);
  if (row.rssi !== null && row.rssi !== undefined) {
    way.push(["Signal", `${row.rssi} dBm${row.relayed ? " of the last hop, a relay's" : ""}`]);
  }
  for (const [name, number] of Object.entries(row.values ?? {})) {
    if (number !== null) way.push([name, measureText(number)]);
  }
  if (row.data && !Object.keys(row.values ?? {}).length) way.push(["Data", row.data]);
  return way;
}

/** What can be said without asking. */
function ownWords(row) {
  const held = row.left_ms ? `was held ${durationText(row.held_ms ?? row.left_ms - row.came_ms)} and has left` : "has not left yet";
  const wrong = row.wrong === "delivery" ? " It was delivered before one of its causes, or after one of its effects." : "";
  return `${row.name} ${held}.${wrong}`;
}
