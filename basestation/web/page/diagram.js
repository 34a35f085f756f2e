// The space-time diagram: only what is in view is drawn, in a few strokes for each colour.

import { Density } from "./density.js";
import { clockText, durationText } from "./text.js";

const DENSE = 400; // messages in view: with more, lines become densities
const SPARSE = 160; // messages in view: with more, names are left out
const CHUNK = 100; // lines in one stroke
const STACK = 11; // pixels between marks of deliveries at the same time
const TONES = { arrival: "amber", delivery: "red" };
const STEPS_MS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 10e3, 15e3, 30e3, 60e3, 120e3, 300e3, 600e3, 900e3, 1800e3, 3600e3,
  7200e3, 10800e3, 21600e3, 43200e3, 86400e3,
];
const COLOURS = ["card", "ink", "soft", "line", "band", "message", "cause", "amber", "red", "accent"];

export class Diagram {
  constructor(canvas, rows, lanes, view, now) {
    Object.assign(this, { canvas, rows, lanes, view, now });
    this.context = canvas.getContext("2d", { alpha: false });
    this.selected = null;
    this.hovered = null;
    this.troubled = new Set();
    this.began = null;
    this.live = false;
    this.note = "";
    this.onPaint = () => {};
    this.density = new Density();
    this.marks = new Map(); // key -> how far below the observer's line its mark is
    this.waiting = false;
    this.painted = { version: -1, end: 0, at: 0 };
    canvas.dataset.drawn = "0";
    canvas.whereIs = (key) => this.where(key);
    new ResizeObserver(() => this.resize()).observe(canvas.parentElement);
    document.addEventListener("visibilitychange", () => this.request());
    this.restyle();
  }

  /** Read the colours of the theme. */
  restyle() {
    const style = getComputedStyle(this.canvas);
    this.colour = Object.fromEntries(COLOURS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    this.font = style.fontFamily;
    this.request(true);
  }

  resize() {
    const box = this.canvas.parentElement.getBoundingClientRect();
    if (!box.width || !box.height) return;
    this.ratio = Math.min(2, window.devicePixelRatio || 1);
    [this.width, this.height] = [Math.floor(box.width), Math.floor(box.height)];
    this.canvas.width = Math.round(this.width * this.ratio);
    this.canvas.height = Math.round(this.height * this.ratio);
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.lanes.fit(this.width, this.height);
    this.#measureGutter();
    this.paint(performance.now());
  }

  #measureGutter() {
    this.context.font = `12px ${this.font}`;
    const most = Math.max(60, Math.min(140, this.width * 0.2));
    const widths = this.lanes.list.map((lane) => this.context.measureText(laneText(lane)).width + 24);
    this.gutter = Math.min(most, Math.max(58, ...widths));
  }

  relane() {
    this.#measureGutter();
    this.request(true);
  }

  /** Draw soon, if something changed. */
  request(changed = true) {
    this.changed ||= changed;
    if (this.waiting || document.hidden) return;
    this.waiting = true;
    requestAnimationFrame((at) => this.#frame(at));
  }

  #frame(at) {
    this.waiting = false;
    const moving = this.live && this.view.following;
    if (moving) {
      this.view.follow(this.now());
      const pixels = Math.abs(this.view.end - this.painted.end) * this.perMs;
      const due = at - this.painted.at > 30 && pixels > 0.5;
      if (this.changed || due) this.paint(at);
      this.request(false);
    } else if (this.changed) this.paint(at);
  }

  get spanText() {
    return `${durationText(this.view.span)} in view`;
  }

  get perMs() {
    return (this.width - this.gutter) / this.view.span;
  }

  x(ms) {
    return this.gutter + (ms - this.view.from) * this.perMs;
  }

  msAt(x) {
    return this.view.from + (x - this.gutter) / this.perMs;
  }

  paint(at) {
    if (!this.width) return;
    const begun = performance.now();
    this.changed = false;
    this.painted = { version: this.rows.version, end: this.view.end, at };
    const context = this.context;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.fillStyle = this.colour.card;
    context.fillRect(0, 0, this.width, this.height);
    this.#bands();
    this.#grid();
    context.save();
    context.beginPath();
    context.rect(this.gutter, 0, this.width - this.gutter, this.lanes.bottom);
    context.clip();
    const seen = this.#collect();
    if (seen.count > DENSE) this.#crowd(seen);
    this.#strokes(seen);
    this.#dots(seen);
    if (this.selected !== null) this.#cone();
    if (this.hovered !== null && this.hovered !== this.selected) this.#path(this.rows.byKey.get(this.hovered), 2);
    if (seen.count <= SPARSE) this.#labels(seen);
    context.restore();
    this.#names();
    this.scriptMs = performance.now() - begun;
    const { dataset } = this.canvas;
    dataset.drawn = String(Number(dataset.drawn) + 1);
    dataset.inView = String(seen.count);
    dataset.scriptMs = this.scriptMs.toFixed(2);
    this.onPaint(seen);
  }

  #bands() {
    const context = this.context;
    context.fillStyle = this.colour.band;
    this.lanes.list.forEach((lane, at) => {
      if (lane.kind === "mote" && at % 2 === 0 && lane.height >= 6) context.fillRect(0, lane.top, this.width, lane.height);
      if (lane.kind === "observer") context.fillRect(0, lane.top, this.width, lane.height);
    });
    context.strokeStyle = this.colour.line;
    context.lineWidth = 1;
    context.globalAlpha = Math.min(1, this.lanes.step / 12);
    context.beginPath();
    for (const lane of this.lanes.list) {
      const y = Math.round(lane.kind === "observer" ? this.lanes.observerY : lane.y) + 0.5;
      context.moveTo(this.gutter, y);
      context.lineTo(this.width, y);
    }
    context.stroke();
    context.globalAlpha = 1;
  }

  #grid() {
    const context = this.context;
    const step = STEPS_MS.find((ms) => ms * this.perMs > (this.width < 500 ? 76 : 100)) ?? STEPS_MS.at(-1);
    context.font = `11px ${this.font}`;
    context.textBaseline = "middle";
    context.textAlign = "center";
    context.fillStyle = this.colour.soft;
    context.strokeStyle = this.colour.line;
    context.beginPath();
    const free = 20 + context.measureText(this.spanText).width; // right of the text about the span
    let minute = ""; // of the previous label
    const offset = new Date(this.view.end).getTimezoneOffset() * 60e3;
    for (let ms = Math.ceil((this.view.from - offset) / step) * step + offset; ms < this.view.end; ms += step) {
      const x = Math.round(this.x(ms)) + 0.5;
      context.moveTo(x, this.lanes.bottom);
      context.lineTo(x, 0);
      const full = clockText(ms, step < 1000);
      const text = step < 1000 && full.startsWith(minute || " ") ? `${full.slice(6)} s` : full;
      const half = context.measureText(text).width / 2;
      if (x - half <= Math.max(free, this.gutter) || x + half >= this.width) continue;
      context.fillText(text, x, this.lanes.bottom + 13);
      minute = full.slice(0, 6);
    }
    context.stroke();
    this.#edge(this.began, "the run began");
    if (this.live && this.view.end > this.now()) this.#edge(this.now(), "");
  }

  #edge(ms, text) {
    if (ms === null || ms < this.view.from || ms > this.view.end) return;
    const context = this.context;
    const x = Math.round(this.x(ms)) + 0.5;
    context.strokeStyle = this.colour.soft;
    context.globalAlpha = 0.6;
    context.setLineDash([2, 3]);
    context.beginPath();
    context.moveTo(x, 0);
    context.lineTo(x, this.lanes.bottom);
    context.stroke();
    context.setLineDash([]);
    context.globalAlpha = 1;
    context.textAlign = "left";
    context.fillStyle = this.colour.soft;
    if (text) context.fillText(text, x + 5, 9);
    context.textAlign = "center";
  }

  /** The positions of each message in view. */
  #collect() {
    const { lanes, rows, view } = this;
    const seen = { count: 0, rows: [], lines: {}, holds: {}, open: {}, causes: [] };
    const [from, to] = rows.range(view.from, view.end);
    const now = this.now();
    const put = (batches, tone, x1, y1, x2, y2) => (batches[tone] ??= []).push(x1, y1, x2, y2);
    for (let at = from; at < to; at += 1) {
      const row = rows.messages[at];
      const y = lanes.moteY.get(row.mote);
      if (y === undefined) continue;
      const sent = this.x(row.sent_ms ?? row.came_ms);
      const came = this.x(row.came_ms);
      const left = row.left_ms === null || row.left_ms === undefined ? null : this.x(row.left_ms);
      const end = left ?? (row.state === "discarded" ? came : this.x(Math.max(now, row.came_ms)));
      if (Math.max(sent, came, end) < this.gutter || Math.min(sent, came) > this.width) continue;
      const tone = TONES[row.wrong] ?? "message";
      const gateway = lanes.yOfGateway(row.gateway);
      put(seen.lines, tone, sent, y, came, gateway);
      if (left !== null) put(seen.holds, tone, came, gateway, left, lanes.observerY);
      else if (row.state !== "discarded") put(seen.open, tone, came, gateway, end, lanes.observerY);
      for (const cause of row.causes ?? []) {
        if (cause.how === "order") continue;
        const known = rows.byKey.get(cause.key);
        const above = known && lanes.moteY.get(known.mote);
        if (above !== undefined) seen.causes.push(this.x(known.sent_ms ?? known.came_ms), above, sent, y);
      }
      seen.rows.push({ row, tone, y, gateway, sent, came, end });
      seen.count += 1;
    }
    this.#stack(seen);
    return seen;
  }

  /** Marks that would hide one another on the observer's lane are stacked, in order. */
  #stack(seen) {
    this.marks.clear();
    if (seen.count * 9 > this.width) return;
    const left = seen.rows.filter(({ row }) => row.state !== "discarded");
    left.sort((one, other) => one.end - other.end || (one.row.place ?? 1e12) - (other.row.place ?? 1e12));
    const room = Math.max(1, Math.floor((this.lanes.bottom - this.lanes.observerY + 5) / STACK));
    let before = -Infinity;
    let level = 0;
    for (const { row, end } of left) {
      level = end - before < 9 ? (level + 1) % room : 0;
      before = end;
      if (level) this.marks.set(row.key, level * STACK);
    }
  }

  /** In a crowd, messages and causes become densities; messages out of order stay lines. */
  #crowd(seen) {
    const { density, context, lanes } = this;
    const strength = this.selected === null ? 1 : 0.4;
    const [width, height] = [this.width, Math.ceil(lanes.bottom)];
    density.clear(width, height);
    density.lines(seen.causes);
    density.paint(context, this.colour.cause, 0.1 * strength);
    density.clear(width, height);
    density.lines(seen.lines.message ?? []);
    density.lines(seen.holds.message ?? []);
    const observer = Math.round(lanes.observerY);
    const tall = Math.max(1, Math.min(4, Math.round(lanes.step / 5)));
    for (const { row, tone, sent, end, y } of seen.rows) {
      if (tone !== "message") continue;
      density.run(Math.round(sent), Math.round(y) - tall, Math.round(y) + tall, 12);
      if (row.state === "final") density.run(Math.round(end), observer - tall, observer + tall, 12);
    }
    density.paint(context, this.colour.message, Math.min(0.12, 200 / seen.count) * strength);
    seen.causes = [];
    seen.lines.message = seen.holds.message = undefined;
    seen.rows = seen.rows.filter(({ tone, row }) => tone !== "message" || row.state !== "final");
  }

  #strokes(seen) {
    const faint = (this.selected === null ? 1 : 0.35) * Math.max(0.14, Math.min(0.6, 500 / (seen.count + 1)));
    this.#stroke(seen.causes, this.colour.cause, 1, Math.min(0.85, faint * 1.4));
    if (seen.count <= SPARSE) this.#arrows(seen.causes, this.colour.cause);
    for (const tone of ["message", "amber", "red"]) {
      const many = (seen.lines[tone]?.length ?? 0) > 400; // a hundred of them
      const alpha = tone === "message" ? faint : (this.selected === null ? 0.95 : 0.4) * (many ? 0.5 : 1);
      const width = tone === "message" ? 1.1 : many ? 1 : 2;
      this.#stroke(seen.lines[tone], this.colour[tone], width, alpha);
      this.#stroke(seen.holds[tone], this.colour[tone], width, alpha);
      this.#stroke(seen.open[tone], this.colour[tone], width, Math.max(alpha, 0.6), [4, 4]);
    }
  }

  #stroke(lines, colour, width, alpha, dash = []) {
    if (!lines?.length) return;
    const context = this.context;
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.globalAlpha = alpha;
    context.setLineDash(dash);
    for (let from = 0; from < lines.length; from += 4 * CHUNK) {
      context.beginPath();
      const to = Math.min(lines.length, from + 4 * CHUNK);
      for (let at = from; at < to; at += 4) {
        context.moveTo(lines[at], lines[at + 1]);
        context.lineTo(lines[at + 2], lines[at + 3]);
      }
      context.stroke();
    }
    context.globalAlpha = 1;
    context.setLineDash([]);
  }

  #arrows(lines, colour, alpha = 0.8) {
    const context = this.context;
    context.fillStyle = colour;
    context.globalAlpha = alpha;
    context.beginPath();
    for (let at = 0; at < lines.length; at += 4) {
      const angle = Math.atan2(lines[at + 3] - lines[at + 1], lines[at + 2] - lines[at]);
      const [x, y] = [lines[at + 2] - 5 * Math.cos(angle), lines[at + 3] - 5 * Math.sin(angle)];
      context.moveTo(x, y);
      context.lineTo(x - 8 * Math.cos(angle - 0.36), y - 8 * Math.sin(angle - 0.36));
      context.lineTo(x - 8 * Math.cos(angle + 0.36), y - 8 * Math.sin(angle + 0.36));
    }
    context.fill();
    context.globalAlpha = 1;
  }

  /** Sendings, arrivals and deliveries; filled where they are final. */
  #dots(seen) {
    const size = Math.max(1.6, Math.min(4, this.lanes.step / 4, 2 + 300 / (seen.count + 1)));
    this.context.globalAlpha = this.selected === null ? 1 : 0.45;
    for (const tone of ["message", "amber", "red"]) {
      const mine = seen.rows.filter((part) => part.tone === tone);
      if (!mine.length) continue;
      const grown = tone === "message" ? size : mine.length > 100 ? 2 : Math.max(size, 2.4) + 0.6;
      this.#fillDots(mine.map((part) => [part.sent, part.y]), grown, tone);
      this.#fillDots(mine.map((part) => [part.came, part.gateway]), grown * 0.6, tone);
      const final = mine.filter(({ row }) => row.state === "final");
      this.#fillDots(final.map((part) => this.#markOf(part)), Math.max(2.5, grown) * 1.1, tone);
      const open = mine.filter(({ row }) => row.state === "tentative" || row.state === "held");
      for (const part of open) this.#ring(this.#markOf(part), Math.max(2.5, grown) * 1.1, tone, part.row.state);
      const gone = mine.filter(({ row }) => row.state === "discarded");
      for (const part of gone) this.#cross(part.came, part.gateway, 4);
    }
    this.context.globalAlpha = 1;
  }

  #markOf({ row, end }) {
    return [end, this.lanes.observerY + (this.marks.get(row.key) ?? 0)];
  }

  /** Circles; diamonds for messages out of order, so that they differ not only by colour. */
  #fillDots(points, size, tone) {
    const context = this.context;
    context.fillStyle = this.colour[tone];
    context.beginPath();
    for (const [x, y] of points) {
      if (tone === "message") {
        context.moveTo(x + size, y);
        context.arc(x, y, size, 0, 2 * Math.PI);
      } else {
        const arm = size * 1.35;
        context.moveTo(x, y - arm);
        context.lineTo(x + arm, y);
        context.lineTo(x, y + arm);
        context.lineTo(x - arm, y);
        context.closePath();
      }
    }
    context.fill();
  }

  #ring([x, y], size, tone, state) {
    const context = this.context;
    context.beginPath();
    context.arc(x, y, size, 0, 2 * Math.PI);
    context.fillStyle = this.colour.card;
    context.fill();
    context.lineWidth = 1.6;
    context.strokeStyle = this.colour[tone];
    context.setLineDash(state === "held" ? [2, 2] : []);
    context.stroke();
    context.setLineDash([]);
  }

  #cross(x, y, size) {
    const context = this.context;
    context.strokeStyle = this.colour.soft;
    context.lineWidth = 1.6;
    context.beginPath();
    context.moveTo(x - size, y - size);
    context.lineTo(x + size, y + size);
    context.moveTo(x + size, y - size);
    context.lineTo(x - size, y + size);
    context.stroke();
  }

  /** The chosen message, its causes and its effects. */
  #cone() {
    const row = this.rows.byKey.get(this.selected);
    if (!row) return;
    if (this.coneOf?.key !== row.key || this.coneOf.version !== this.rows.version) {
      this.coneOf = { key: row.key, version: this.rows.version, ...this.rows.cone(row) };
    }
    const line = ([effect, cause]) => {
      const [to, from] = [this.where(effect.key)?.sent, this.where(cause.key)?.sent];
      return to && from ? [from.x, from.y, to.x, to.y] : [];
    };
    const received = this.coneOf.causes.filter(([, , how]) => how !== "order");
    const direct = this.coneOf.causes.filter(([effect]) => effect === row);
    const own = [...this.coneOf.causes, ...this.coneOf.effects].filter(([, , how]) => how === "order");
    const followed = this.coneOf.effects.filter(([, , how]) => how !== "order");
    const groups = [
      [own.flatMap(line), this.colour.soft, 1, 0.5],
      [received.filter(([effect]) => effect !== row).flatMap(line), this.colour.cause, 1.4, 0.6],
      [followed.flatMap(line), this.colour.soft, 1.4, 0.8],
      [received.filter(([effect]) => effect === row).flatMap(line), this.colour.cause, 2.6, 1],
    ];
    for (const [lines, colour, width, alpha] of groups) {
      this.#stroke(lines, colour, width, alpha);
      this.#arrows(lines, colour, alpha);
    }
    for (const [, cause] of direct) this.#path(cause, 1.4);
    this.#path(row, 3);
    const at = this.where(row.key);
    for (const point of at ? [at.sent, at.mark] : []) this.#halo(point.x, point.y);
  }

  #halo(x, y) {
    const context = this.context;
    context.strokeStyle = this.colour.ink;
    context.lineWidth = 1.6;
    context.beginPath();
    context.arc(x, y, 9, 0, 2 * Math.PI);
    context.stroke();
  }

  /** Draw one message in full strength. */
  #path(row, width) {
    const at = row && this.where(row.key);
    if (!at) return;
    const tone = TONES[row.wrong] ?? "message";
    const colour = this.colour[tone];
    this.#stroke([at.sent.x, at.sent.y, at.came.x, at.came.y], colour, width, 1);
    const open = row.state === "held" || row.state === "tentative";
    this.#stroke([at.came.x, at.came.y, at.mark.x, at.mark.y], colour, width, 1, open ? [4, 4] : []);
    this.#fillDots([[at.sent.x, at.sent.y]], 4, tone);
    this.#fillDots([[at.came.x, at.came.y]], 2.6, tone);
    if (open) this.#ring([at.mark.x, at.mark.y], 4.2, tone, row.state);
    else this.#fillDots([[at.mark.x, at.mark.y]], 4.4, tone);
  }

  /** Names beside sendings and deliveries, where there is room. */
  #labels(seen) {
    const context = this.context;
    context.font = `10.5px ${this.font}`;
    context.strokeStyle = this.colour.card;
    context.lineWidth = 3;
    context.lineJoin = "round";
    context.textAlign = "left";
    context.textBaseline = "middle";
    const write = (text, x, y, edge) => {
      const width = context.measureText(text).width;
      if (x < edge || this.lanes.step < 12) return edge;
      context.strokeText(text, x, y);
      context.fillText(text, x, y);
      return x + width + 4;
    };
    const edges = new Map();
    const order = [...seen.rows].sort((one, other) => one.sent - other.sent);
    for (const { row, sent, y, tone } of order) {
      context.fillStyle = tone === "message" ? this.colour.soft : this.colour[tone];
      edges.set(y, write(row.name, sent + 6, y - Math.min(8, this.lanes.step / 3), edges.get(y) ?? -Infinity));
    }
    const marks = seen.rows.filter(({ row }) => row.state !== "discarded").sort((one, other) => one.end - other.end);
    marks.forEach((part, at) => {
      const [x, y] = this.#markOf(part);
      const width = context.measureText(part.row.name).width;
      const near = marks.slice(at + 1, at + 6).some((other) => {
        const mark = this.#markOf(other);
        return Math.abs(mark[1] - y) < 8 && mark[0] < x + width + 12;
      });
      context.fillStyle = part.tone === "message" ? this.colour.ink : this.colour[part.tone];
      if (near) return;
      context.strokeText(part.row.name, x + 8, y);
      context.fillText(part.row.name, x + 8, y);
    });
  }

  #names() {
    const context = this.context;
    context.fillStyle = this.colour.card;
    context.fillRect(0, 0, this.gutter, this.height);
    context.fillStyle = this.colour.band;
    this.lanes.list.forEach((lane, at) => {
      const banded = (lane.kind === "mote" && at % 2 === 0 && lane.height >= 6) || lane.kind === "observer";
      if (banded) context.fillRect(0, lane.top, this.gutter, lane.height);
    });
    context.textBaseline = "middle";
    context.textAlign = "left";
    let edge = -Infinity;
    for (const lane of this.lanes.list) {
      const y = lane.kind === "observer" ? this.lanes.observerY : lane.y;
      if (y < edge) continue;
      edge = y + 12;
      const trouble = lane.kind === "mote" && this.troubled.has(lane.id);
      context.font = `${lane.kind === "mote" ? "" : "600 "}12px ${this.font}`;
      context.fillStyle = trouble ? this.colour.amber : this.colour.ink;
      context.fillText(this.#fitted(laneText(lane), this.gutter - (trouble ? 26 : 14)), 10, y + 0.5);
      if (trouble) context.fillText("!", this.gutter - 10, y + 0.5);
    }
    context.strokeStyle = this.colour.line;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(this.gutter + 0.5, 0);
    context.lineTo(this.gutter + 0.5, this.lanes.bottom);
    context.moveTo(0, Math.round(this.lanes.bottom) + 0.5);
    context.lineTo(this.width, Math.round(this.lanes.bottom) + 0.5);
    context.stroke();
    context.font = `11px ${this.font}`;
    context.fillStyle = this.colour.soft;
    context.fillText(this.spanText, 10, this.lanes.bottom + 13);
  }

  #fitted(text, width) {
    let short = text;
    while (short.length > 1 && this.context.measureText(short === text ? text : `${short}…`).width > width) {
      short = short.slice(0, -1);
    }
    return short === text ? text : `${short}…`;
  }

  /** A message's sending, arrival and mark on the canvas, or null if its mote is not shown. */
  where(key) {
    const row = this.rows.byKey.get(key);
    const y = row && this.lanes.moteY.get(row.mote);
    if (y === undefined) return null;
    const end = row.left_ms ?? (row.state === "discarded" ? row.came_ms : Math.max(this.now(), row.came_ms));
    return {
      sent: { x: this.x(row.sent_ms ?? row.came_ms), y },
      came: { x: this.x(row.came_ms), y: this.lanes.yOfGateway(row.gateway) },
      mark: { x: this.x(end), y: this.lanes.observerY + (this.marks.get(key) ?? 0) },
    };
  }

  /** The message nearest to a point, if one is within reach. Its ends count more than its lines. */
  hit(x, y, reach) {
    if (x < this.gutter) return null;
    const [from, to] = this.rows.range(this.msAt(x - reach), this.msAt(x + reach));
    let best = null;
    let least = reach;
    for (let at = from; at < to; at += 1) {
      const row = this.rows.messages[at];
      const { sent, came, mark } = this.where(row.key) ?? {};
      if (!sent) continue;
      const points = Math.min(...[sent, came, mark].map((point) => Math.hypot(point.x - x, point.y - y)));
      const lines = Math.min(distance(x, y, sent, came), distance(x, y, came, mark)) * 1.5 + 2;
      const far = Math.min(points, lines) - (row.wrong ? 1 : 0);
      if (far < least) [best, least] = [row, far];
    }
    return best;
  }
}

function laneText({ kind, id, name }) {
  if (kind === "observer") return "observer";
  if (kind === "gateway") return name || "gateway";
  return name ? `${id} ${name}` : `mote ${id}`;
}

/** The distance of a point from a line. */
function distance(x, y, from, to) {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const share = Math.max(0, Math.min(1, ((x - from.x) * dx + (y - from.y) * dy) / (dx * dx + dy * dy || 1)));
  return Math.hypot(from.x + share * dx - x, from.y + share * dy - y);
}
