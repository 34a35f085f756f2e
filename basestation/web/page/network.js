// Motes as a list, those in trouble first, and as a map or a graph by hops.

import { curve, extent, plot } from "./curves.js";
import { confirmed, draw, keepChildren, make, say, show } from "./dom.js";
import { countText, durationText, manyText } from "./text.js";

const PATIENT_MS = 60e3; // after this time a mote that was never heard is in trouble
const MAP = { width: 400, height: 250, edge: 34, dot: 11 };
const LEVELS = ["fine", "warn", "bad"];
const COMMANDS = [
  ["report", "Report"],
  ["blink red", "Blink"],
  ["reboot", "Reboot"],
];

// The words of the full screen, in full.
const TROUBLES = {
  "layout?": "another layout",
  "no time": "out of sync",
  battery: "battery low",
  losing: "losing messages",
  reboots: "restarts often",
};

/** The state of a mote by its alarms: [0 fine, 1 look at it, 2 it fails], and in words. */
export function troubleOf({ trouble, grave }) {
  return trouble ? [grave ? 2 : 1, TROUBLES[trouble] ?? trouble] : [0, "fine"];
}

/** A mote's colour as a class: grey until its first message, in trouble or not. */
function lookOf(mote) {
  return `${LEVELS[troubleOf(mote)[0]]}${mote.heard_ms === null ? " unheard" : ""}`;
}

/** A mote of the deployment that was not heard yet. */
function unheard(mote, late) {
  const nothing = { heard_ms: null, hops: null, battery_mv: null, rssi: null, parent: null, boot: null, in_sync: null, rate: null };
  return { mote, received: 0, lost: 0, reboots: 0, ...nothing, trouble: late ? "never heard" : "", grave: true };
}

export class Network {
  constructor({ list, map, note, relayed }, on) {
    Object.assign(this, { list, map, note, relayed, on }); // on: only(mote), command(mote, setting)
    this.open = null;
  }

  describe(hello) {
    this.hello = hello;
    this.places = new Map(hello.motes.map((mote) => [mote.id, mote]));
    const placed = hello.motes.filter((mote) => Number.isFinite(mote.x) && Number.isFinite(mote.y));
    this.mapped = placed.length > 1 ? placed : null;
    this.histories = new Map(); // a picture has them only if they changed
    this.list.replaceChildren();
  }

  title(id) {
    const name = this.places.get(id)?.name;
    return name ? `${id} ${name}` : `Mote ${id}`;
  }

  show(picture, now) {
    if (!this.hello) return;
    const rank = (mote) => troubleOf(mote)[0] * -1e6 + mote.mote;
    const motes = this.#all(picture).sort((one, other) => rank(one) - rank(other));
    keepChildren(this.list, motes, (mote) => mote.mote, (mote) => this.#build(mote), (item, mote) => this.#fill(item, mote, now));
    say(this.note, this.#summary(motes));
    show(this.relayed, motes.some((mote) => mote.hops > 1 && mote.rssi !== null));
    this.#drawMap(picture, motes);
  }

  #summary(motes) {
    const heard = motes.filter((mote) => mote.heard_ms !== null);
    if (!heard.length && this.hello.live) return "waiting for the first message";
    const missing = motes.length - heard.length;
    const troubled = heard.filter((mote) => troubleOf(mote)[0]).length;
    const parts = [`${countText(heard.length)} of ${manyText(motes.length, "mote")} heard`];
    if (missing) parts.push(`${countText(missing)} ${this.#unheardText}`);
    if (troubled) parts.push(`${countText(troubled)} in trouble`);
    if (parts.length === 1) parts.push("all well");
    return parts.join("; ");
  }

  get #unheardText() {
    return this.hello.live ? "not heard yet" : "never heard";
  }

  /** All motes, with those that were never heard. */
  #all({ motes, at_ms: at }) {
    const known = new Set(motes.map(({ mote }) => mote));
    const late = at - (this.hello.began_ms ?? at) > PATIENT_MS;
    return [...motes, ...this.hello.motes.filter(({ id }) => !known.has(id)).map(({ id }) => unheard(id, late))];
  }

  #build({ mote }) {
    const toggle = () => {
      this.open = this.open === mote ? null : mote;
      for (const item of this.list.children) this.#unfold(item);
    };
    const head = make("button", { type: "button", class: "mote-head", onclick: toggle, "aria-expanded": "false" });
    const name = make("span", { class: "mote-name" });
    head.append(make("span", { class: "dot" }), name, make("span", { class: "badge" }), make("span", { class: "heard" }));
    const figure = (label, what) =>
      make("span", { class: `mote-figure ${what}` }, make("b"), make("small"), curve(`${label} over the last hours`));
    const facts = make("span", { class: "facts" });
    head.append(make("span", { class: "mote-line" }, figure("Signal", "rssi"), figure("Battery", "battery"), facts));
    const only = () => this.on.only(mote);
    const more = make("div", { class: "mote-more" });
    more.append(make("p", { class: "mote-text" }));
    const buttons = make("div", { class: "buttons" });
    buttons.append(make("button", { type: "button", onclick: only }, "Only this mote in the diagram"));
    if (this.hello.control) {
      for (const [setting, label] of COMMANDS) {
        buttons.append(make("button", { type: "button", onclick: () => this.#command(mote, setting) }, label));
      }
    }
    more.append(buttons);
    const item = make("li", { class: "mote" }, head, more);
    item.dataset.mote = mote;
    this.#unfold(item);
    return item;
  }

  #unfold(item) {
    const open = Number(item.dataset.mote) === this.open;
    item.firstElementChild.setAttribute("aria-expanded", String(open));
    show(item.lastElementChild, open);
  }

  async #command(mote, setting) {
    const words = `Send “${setting}” to ${this.title(mote)}?`;
    if (setting !== "reboot" || (await confirmed(words, "Send it"))) this.on.command(mote, setting);
  }

  #fill(item, mote, now) {
    const part = (name) => item.querySelector(name);
    const [level, words] = troubleOf(mote);
    item.className = `mote ${lookOf(mote)}`;
    say(part(".mote-name"), this.title(mote.mote));
    say(part(".badge"), level ? words : "");
    say(part(".heard"), mote.heard_ms === null ? (level ? "–" : this.#unheardText) : `${durationText(Math.max(0, now - mote.heard_ms))} ago`);
    if (mote.history) this.histories.set(mote.mote, mote.history);
    const history = this.histories.get(mote.mote);
    const figure = (name, number, unit, series, least) => {
      const place = part(name);
      say(place.children[0], number);
      say(place.children[1], unit);
      const range = extent(series ?? []);
      if (range && range[1] - range[0] < least) range[0] = range[1] - least;
      plot(place.children[2], history?.at_ms ?? [], series ?? [], { range, most: 24 });
    };
    const last = mote.hops > 1 ? "dBm*" : "dBm";
    figure(".rssi", mote.rssi === null ? "–" : `${mote.rssi}`, last, history?.rssi, 6);
    figure(".battery", mote.battery_mv === null ? "–" : (mote.battery_mv / 1000).toFixed(2), "V", history?.battery_mv, 100);
    const facts = [];
    if (mote.hops !== null) facts.push(manyText(mote.hops, "hop"));
    if (typeof mote.battery_days === "number") facts.push(`2.7 V in ${manyText(Math.round(mote.battery_days), "day")}`);
    if (typeof mote.duty === "number") {
      facts.push(`radio on ${(100 * mote.duty).toPrecision(2)}%: full cells last ${manyText(Math.round(mote.duty_days), "day")}`);
    }
    if (mote.lost) facts.push(`${countText(mote.lost)} lost`);
    if (mote.reboots) facts.push(manyText(mote.reboots, "reboot"));
    say(part(".facts"), facts.join(" · "));
    say(part(".mote-text"), moteText(mote, this.#stateText(mote)));
  }

  #stateText(mote) {
    const [level, words] = troubleOf(mote);
    return mote.heard_ms === null && !level ? this.#unheardText : words;
  }

  #drawMap({ links, gateways }, motes) {
    const places = this.mapped ? this.#placed(gateways, links) : ringsOf(motes, gateways, this.hello.motes.length);
    const states = new Map(motes.map((mote) => [mote.mote, mote]));
    const lines = [];
    const line = (from, to, kind, rssi) => {
      const [one, other] = [places.get(from), places.get(to)];
      if (!one || !other) return;
      const width = rssi === null || rssi === undefined ? 1.2 : Math.max(1.4, Math.min(5, (rssi + 98) / 7));
      lines.push(draw("line", { class: `link ${kind}`, x1: one[0], y1: one[1], x2: other[0], y2: other[1], "stroke-width": width }));
    };
    const heard = new Set(links.map(({ from, to }) => `${from} ${to}`));
    for (const { mote, parent } of motes) {
      if (parent !== null && parent !== undefined && !heard.has(`${mote} ${parent}`)) line(mote, parent, "parent", null);
    }
    for (const link of links) line(link.from, link.to, "heard", link.rssi);
    const dots = [...places].map(([id, [x, y]]) => {
      const gateway = id >= this.hello.motes.length;
      const mote = states.get(id);
      const here = this.mapped ? "gateway, amid the motes that it hears" : "gateway";
      const title = gateway ? here : `${this.title(id)}: ${this.#stateText(mote)}`;
      const group = draw("g", { class: `spot ${gateway ? "gateway" : lookOf(mote)}`, transform: `translate(${x} ${y})` });
      const size = places.size > 60 ? 6 : MAP.dot;
      if (gateway) group.append(draw("rect", { x: -13, y: -13, width: 26, height: 26, rx: 7 }));
      else group.append(draw("circle", { r: size }));
      if (mote && troubleOf(mote)[0] === 2) group.append(draw("circle", { class: "ring", r: size + 4 }));
      if (size > 6 || gateway) group.append(draw("text", { dy: "0.35em" }, gateway ? "G" : String(id)));
      const name = this.mapped && !gateway ? this.places.get(id)?.name : "";
      if (name) group.append(draw("text", { class: "label", y: size + 13 }, name));
      group.append(draw("title", {}, title));
      if (!gateway) group.addEventListener("click", () => this.#reveal(id));
      return group;
    });
    this.map.replaceChildren(...lines, ...dots);
    this.map.setAttribute("viewBox", `0 0 ${MAP.width} ${MAP.height}`);
    const how = this.mapped ? "A map of the motes" : "Motes in rings by hops around the gateway";
    this.map.setAttribute("aria-label", `${how}; lines are links as heard.`);
  }

  #reveal(mote) {
    this.open = mote;
    for (const item of this.list.children) this.#unfold(item);
    this.list.querySelector(`[data-mote="${mote}"]`)?.scrollIntoView({ block: "nearest" });
  }

  /** The deployment's positions on the drawing; y points up, as on a map. */
  #placed(gateways, links) {
    const given = this.hello.gateways.filter((gateway) => Number.isFinite(gateway.x) && Number.isFinite(gateway.y));
    const all = [...this.mapped, ...given];
    const [left, right] = extent(all.map(({ x }) => x));
    const [low, high] = extent(all.map(({ y }) => y));
    const room = [MAP.width - 2 * MAP.edge, MAP.height - 2 * MAP.edge];
    const scale = Math.min(room[0] / (right - left || 1), room[1] / (high - low || 1));
    const [dx, dy] = [(room[0] - (right - left) * scale) / 2, (room[1] - (high - low) * scale) / 2];
    const at = ({ x, y }) => [MAP.edge + dx + (x - left) * scale, MAP.height - MAP.edge - dy - (y - low) * scale];
    const places = new Map(this.mapped.map((mote) => [mote.id, at(mote)]));
    const count = this.hello.motes.length;
    gateways.forEach(({ gateway }, index) => {
      const known = given.find(({ id }) => id === count + gateway);
      const heard = links.filter(({ to, from }) => to === count + gateway && places.has(from)).map(({ from }) => places.get(from));
      places.set(count + gateway, known ? at(known) : heard.length ? amid(heard) : [24 + index * 34, MAP.height - 20]);
    });
    return places;
  }
}

/** A gateway without a position is drawn in the middle of the motes that it hears. */
function amid(points) {
  const mean = (axis) => points.reduce((sum, point) => sum + point[axis], 0) / points.length;
  let [x, y] = [mean(0), mean(1)];
  while (y < MAP.height - 20 && points.some((point) => Math.hypot(point[0] - x, point[1] - y) < 30)) y += 6;
  return [x, y];
}

/** Motes on rings around the gateway, one ring for each hop; motes with unknown hops are outermost. */
function ringsOf(motes, gateways, count) {
  const places = new Map();
  const [middle, centre] = [MAP.width / 2, MAP.height / 2];
  gateways.forEach(({ gateway }, at) => {
    places.set(count + gateway, [middle + (at - (gateways.length - 1) / 2) * 34, centre]);
  });
  const farthest = Math.max(1, ...motes.map((mote) => mote.hops ?? 0));
  const hopless = motes.some((mote) => mote.hops === null) ? 1 : 0;
  const rings = new Map();
  for (const mote of [...motes].sort((one, other) => one.mote - other.mote)) {
    const ring = mote.hops === null ? farthest + 1 : Math.max(1, mote.hops);
    rings.set(ring, [...(rings.get(ring) ?? []), mote]);
  }
  for (const [ring, members] of rings) {
    const rest = farthest + hopless - 1;
    const share = rest ? 0.36 + (0.64 * (ring - 1)) / rest : 0.75;
    members.forEach((mote, at) => {
      const angle = (2 * Math.PI * (at + 0.5 * (ring % 2))) / members.length - Math.PI / 2;
      const [wide, tall] = [(MAP.width / 2 - 22) * share, (MAP.height / 2 - 20) * share];
      places.set(mote.mote, [middle + wide * Math.cos(angle), centre + tall * Math.sin(angle)]);
    });
  }
  return places;
}

function moteText(mote, words) {
  const parts = [`State: ${words}`, `${manyText(mote.received, "message")} received, ${countText(mote.lost)} lost`];
  if (mote.duplicates) parts.push(manyText(mote.duplicates, "copy").replace(/copys$/, "copies"));
  if (mote.late) parts.push(`${countText(mote.late)} late`);
  if (mote.rate !== null && mote.rate !== undefined) parts.push(`${mote.rate.toFixed(2)} messages a second`);
  parts.push(`boot ${mote.boot ?? "unknown"}, ${manyText(mote.reboots ?? 0, "reboot")} seen`);
  if (mote.in_sync !== null) parts.push(mote.in_sync ? "in sync" : "out of sync");
  return `${parts.join("; ")}.`;
}
