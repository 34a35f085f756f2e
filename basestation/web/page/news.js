// Alarms at the top, and all events as a list.

import { byId, keepChildren, make, say, show } from "./dom.js";
import { clockText, manyText } from "./text.js";

const MOST_LISTED = 150;

export class News {
  constructor(rows, onSubject) {
    this.rows = rows;
    this.onSubject = onSubject;
    this.dismissed = new Set();
    this.alarms = [];
    byId("alarms-back").addEventListener("click", () => {
      this.dismissed.clear();
      this.#showAlarms();
    });
  }

  /** A dismissed alarm stays hidden in this view until it is cleared and raised again. */
  takeAlarms(alarms) {
    this.alarms = alarms;
    for (const text of this.dismissed) if (!alarms.includes(text)) this.dismissed.delete(text);
    this.#showAlarms();
  }

  #showAlarms() {
    const shown = this.alarms.filter((text) => !this.dismissed.has(text));
    const build = (text) => {
      const dismiss = () => {
        this.dismissed.add(text);
        this.#showAlarms();
      };
      const label = `Hide this alarm here: ${text}`;
      const button = make("button", { type: "button", class: "quiet", "aria-label": label, onclick: dismiss }, "×");
      return make("li", {}, make("span", {}, text), button);
    };
    keepChildren(byId("alarm-list"), shown, (text) => text, build, () => {});
    const away = this.alarms.length - shown.length;
    say(byId("alarms-back"), `${manyText(away, "alarm")} hidden: show`);
    show(byId("alarms-back"), away > 0);
    show(byId("alarms"), this.alarms.length > 0);
    byId("alarms").classList.toggle("all-hidden", shown.length === 0);
  }

  refresh() {
    const newest = this.rows.events.slice(-MOST_LISTED).reverse();
    const build = (event) => {
      const go = () => this.onSubject(event.subject);
      const named = /^\d+#\d+$/.test(event.subject ?? "");
      const subject = named ? make("button", { type: "button", class: "link", onclick: go }, event.subject) : make("b", {}, event.subject ?? "");
      const what = make("span", { class: "what" });
      return make("li", { class: "event" }, make("time", {}, clockText(event.at_ms)), what, subject, make("span", { class: "text" }));
    };
    keepChildren(byId("events"), newest, ({ key }) => key, build, (item, event) => {
      item.className = `event ${event.raised ? "raised" : ""} ${/^[a-z]+$/.test(event.what) ? event.what : ""}`;
      say(item.children[1], event.raised === false ? `${event.what} over` : event.what);
      say(item.children[3], event.text ?? "");
    });
    say(byId("events-none"), newest.length ? "" : "No event yet, only messages.");
  }
}
