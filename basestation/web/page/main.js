// Joins the parts: incoming rows and pictures go to each of them, user actions to the diagram.

import { Details } from "./details.js";
import { Diagram } from "./diagram.js";
import { byId, keepChildren, make, say, show } from "./dom.js";
import { Gestures } from "./gestures.js";
import { Lanes } from "./lanes.js";
import { Network, troubleOf } from "./network.js";
import { News } from "./news.js";
import { policyText, Queue, shareText } from "./queue.js";
import { Rows } from "./rows.js";
import { Scrubber } from "./scrubber.js";
import { Live, Recording, recordingHere } from "./stream.js";
import { clockText, countText, durationText } from "./text.js";
import { TimeView } from "./timeview.js";
import { Values } from "./values.js";

const THEMES = ["", "light", "dark"];
const CLOSE_MS = 250; // a found message is shown in a stretch of this length,
const WAYS = 8; // or of this many times its way, whichever is longer
const EMPTY_MS = 2000; // after this time without a message, an empty diagram says so
const SEARCHED_PAGES = 40; // older pages that a search looks through

const rows = new Rows();
const lanes = new Lanes();
const view = new TimeView(window.innerWidth < 700 ? 4000 : 10000);
const recording = recordingHere();
const hooks = { hello: greet, rows: takeRows, picture: takePicture, lost: loseConnection, back: regain };
const source = recording ? new Recording(hooks, recording) : new Live(hooks);
let hello = null;
let picture = null;
let shownMotes = null; // ids, or null for all
let loading = false;
let lostSince = null;

const now = () => (hello && !hello.live && rows.last ? endOfRun() : source.now());
const diagram = new Diagram(byId("diagram"), rows, lanes, view, now);
const scrubber = new Scrubber(byId("scrubber"), rows, view, now, (ms) => {
  view.centre(ms);
  moved();
});
const networkHost = { list: byId("motes"), map: byId("map"), note: byId("network-note"), relayed: byId("relayed") };
const network = new Network(networkHost, {
  only: (mote) => {
    showMotes(new Set([mote]));
    openTab("diagram");
  },
  command: async (mote, setting) => toast(await source.command(mote, setting).then(({ text }) => text, ({ message }) => message)),
});
const queue = new Queue(source);
const valuesHost = { list: byId("values"), choice: byId("values-choice"), note: byId("values-note"), span: byId("values-span") };
const values = new Values(valuesHost, rows);
const details = new Details(source, rows, {
  go: (row) => choose(row, true),
  closed: () => {
    diagram.selected = null;
    diagram.request();
  },
});
const news = new News(rows, (name) => {
  openTab("diagram");
  search(name);
});

// What comes in

function greet(greeting) {
  if (hello && hello.run !== greeting.run) {
    rows.clear();
    details.close();
    toast(`Another run began: ${greeting.network}.`);
  }
  const fresh = hello?.run !== greeting.run;
  hello = greeting;
  say(byId("network-name"), hello.network);
  document.title = `${hello.network} · Causeway`;
  say(byId("empty"), hello.live ? "Waiting for the first message." : "This run has no message.");
  diagram.live = hello.live;
  if (fresh) picture = null;
  sayStatus();
  if (!fresh) return;
  diagram.began = hello.began_ms ?? null;
  lanes.describe(hello);
  shownMotes = null;
  view.following = true;
  view.fitted = false;
  for (const part of [network, queue]) part.describe(hello);
  values.describe(hello, (mote) => network.title(mote));
  document.body.classList.toggle("no-values", !hello.values?.length);
  listFilter();
  sayFollow();
  diagram.relane();
}

function takeRows(fresh) {
  const met = fresh.filter((row) => row.kind === "message" && lanes.meet(row.mote));
  rows.take(fresh);
  if (met.length) {
    listFilter();
    diagram.relane();
  }
  show(byId("empty"), rows.messages.length === 0);
  sayStatus();
  fitView();
  diagram.request();
  if (details.row) details.refresh();
  document.body.dataset.rows = String(rows.messages.length);
  soon();
}

/** Choose the first view so that it is neither empty nor crowded: a message for every few pixels. */
function fitView() {
  if (view.fitted || !rows.last || !view.following) return;
  const some = rows.messages.slice(-Math.max(16, Math.round(diagram.width / 13)));
  if (some.length > 5) view.span = Math.min(60e3, Math.max(800, some.at(-1).came_ms - some[0].came_ms));
  view.follow(now());
  clearTimeout(view.settled);
  view.settled = setTimeout(() => (view.fitted = true), 1000);
}

function endOfRun() {
  const { last } = rows;
  return Math.max(last.came_ms, last.left_ms ?? 0);
}

// In a network with a key: refused messages, and those that may be replayed; without the key, unchecked ones.
function sayRefused(refused) {
  byId("head-guard").hidden = !refused;
  if (!refused) return;
  const verdicts = "forged" in refused ? ["forged", "replayed", "unprotected"] : ["unchecked"];
  say(byId("head-verdicts"), verdicts.join(", "));
  say(byId("head-refused"), verdicts.map((verdict) => countText(refused[verdict])).join(", "));
  byId("head-refused").classList.toggle("red", refused.forged > 0 || refused.replayed > 0);
}

function takePicture(fresh) {
  picture = fresh;
  sayStatus();
  news.takeAlarms(picture.alarms ?? []);
  network.show(picture, hello.live ? now() : picture.at_ms);
  queue.show(picture);
  say(byId("head-rate"), picture.rate === null || picture.rate === undefined ? "–" : picture.rate.toFixed(1));
  say(byId("head-received"), countText(picture.received));
  say(byId("head-held"), countText(picture.held));
  say(byId("head-hold"), picture.hold?.mean === null || picture.hold?.mean === undefined ? "–" : durationText(picture.hold.mean));
  for (const [name, { messages, overtaken, possible }] of [["came", picture.arrival], ["left", picture.delivery]]) {
    say(byId(`head-${name}`), messages ? shareText(messages, overtaken, possible) : "–");
    byId(`head-${name}`).classList.toggle(name === "came" ? "amber" : "red", overtaken > 0);
  }
  sayRefused(picture.refused);
  diagram.troubled = new Set(picture.motes.filter((mote) => troubleOf(mote)[0]).map(({ mote }) => mote));
  diagram.request();
  soon();
}

/** Refresh lists and small curves at most once a second. */
let sooner = null;
function soon() {
  sooner ??= setTimeout(() => {
    sooner = null;
    values.refresh();
    news.refresh();
    sayWrong();
  }, rows.messages.length ? 900 : 50);
}

function loseConnection(since) {
  lostSince = since;
  sayStatus();
}

function regain() {
  lostSince = null;
  toast("Connected again.");
}

function sayStatus() {
  const status = byId("status");
  const lost = lostSince !== null;
  const waiting = !hello || (hello.live && !rows.last);
  status.className = lost ? "lost" : waiting ? "waiting" : hello.live ? "live" : "recorded";
  document.body.classList.toggle("disconnected", lost);
  const since = lost ? `since ${clockText(lostSince)} (${durationText(Date.now() - lostSince)})` : "";
  if (lost) say(status, `${hello ? "Connection lost" : "No connection"} ${since}, trying again`);
  else if (!hello) say(status, "Connecting …");
  else say(status, `${waiting ? "Waiting for the first message" : hello.live ? "Live" : "Recorded run"} · ${orderText()}`);
}

/** The stamp and the policy. */
function orderText() {
  return `stamp ${hello.scheme}${picture ? `, policy ${policyText(picture)}` : ""}`;
}
setInterval(() => (lostSince === null ? null : sayStatus()), 1000);

// Time

function moved() {
  view.fitted = true; // from now on the user decides what is in view
  if (rows.last) view.clamp(rows.first.came_ms, now());
  sayFollow();
  diagram.request();
  loadOlder();
}

function sayFollow() {
  const button = byId("follow");
  say(button, hello?.live === false ? "End" : view.following ? "Pause" : "Follow");
  button.setAttribute("aria-pressed", String(view.following));
  document.body.classList.toggle("paused", !view.following && hello?.live !== false);
}

function follow(on) {
  view.following = on;
  if (on) view.follow(now());
  moved();
}

/** An empty diagram that follows says when the last message came. */
function sayQuiet(inView) {
  const last = hello?.live && view.following && !inView ? lastShown() : undefined;
  const ago = last ? now() - last.came_ms : 0;
  show(byId("quiet"), ago > EMPTY_MS);
  if (ago > EMPTY_MS) say(byId("quiet-text"), `Last message ${durationText(ago)} ago`);
}

function lastShown() {
  return rows.messages.findLast((row) => lanes.moteY.has(row.mote));
}

/** Fetch messages before the oldest loaded one, once the view gets near it. */
async function loadOlder() {
  if (loading || !rows.more || rows.full || !rows.first || view.from > rows.first.came_ms) return false;
  return fetchOlder();
}

async function fetchOlder() {
  loading = true;
  try {
    const { rows: older, more } = await source.older(rows.first.came_ms);
    const before = rows.messages.length;
    takeRows(older);
    rows.more = more && rows.messages.length > before;
    return rows.messages.length > before;
  } catch (error) {
    toast(`Older messages cannot be shown. ${error.message}`);
    rows.more = false;
    return false;
  } finally {
    loading = false;
  }
}

// One message

/** Show a message's explanation; `bring` moves it into view. */
function choose(row, bring = false) {
  if (!row) {
    details.close();
    return;
  }
  if (bring) {
    if (shownMotes && !shownMotes.has(row.mote)) showMotes(new Set([...shownMotes, row.mote]));
    const [from, to] = [row.sent_ms ?? row.came_ms, row.left_ms ?? row.came_ms];
    const close = Math.max(CLOSE_MS, WAYS * (to - from));
    if (view.span > 2 * close) {
      view.centre((from + to) / 2);
      view.zoom(close / view.span, (from + to) / 2);
    } else if (from < view.from + view.span * 0.15 || to > view.end - view.span * 0.1) view.centre((from + to) / 2);
  }
  if (view.following && hello.live) view.following = false; // the message must stay in view
  diagram.selected = row.key;
  moved();
  details.open(row, (mote) => network.title(mote));
  if (getComputedStyle(details.panel).position === "fixed") diagram.canvas.scrollIntoView({ block: "start" });
}

function step(by) {
  const shown = rows.messages.filter((row) => lanes.moteY.has(row.mote));
  if (!shown.length) return;
  let at = shown.findIndex((row) => row.key === diagram.selected);
  if (at < 0) at = shown.findLastIndex((row) => row.came_ms <= view.end - view.span / 2) - Math.sign(by);
  choose(shown[Math.max(0, Math.min(shown.length - 1, at + by))], true);
}

function stepWrong(by) {
  const wrong = rows.wrong().filter((row) => lanes.moteY.has(row.mote));
  if (!wrong.length) {
    toast("No loaded message is known to be out of order.");
    return;
  }
  const selected = rows.byKey.get(diagram.selected);
  const here = selected?.key ?? (by < 0 ? Infinity : rows.messages[rows.range(view.from, view.from)[0]]?.key ?? 0);
  const next = by < 0 ? wrong.findLast((row) => row.key < here) : wrong.find((row) => row.key > here);
  choose(next ?? (by < 0 ? wrong.at(-1) : wrong[0]), true);
}

function sayWrong() {
  const wrong = rows.wrong();
  const serious = wrong.filter((row) => row.wrong === "delivery").length;
  const count = byId("wrong-count");
  say(count, wrong.length ? "Out of order" : "None out of order");
  count.title = `${countText(serious)} messages are in a violation as delivered, ${countText(wrong.length - serious)} only as they came`;
  count.classList.toggle("red", serious > 0);
  count.classList.toggle("amber", !serious && wrong.length > 0);
}

/** Find a message by name, in older pages as well. A second search for a name finds the previous one. */
async function search(text) {
  const answer = byId("find-answer");
  const name = namedByMote(text.trim());
  const before = diagram.selected !== null && rows.byKey.get(diagram.selected)?.name === name ? diagram.selected : Infinity;
  let found = rows.find(name, before);
  for (let page = 0; !found && rows.more && !rows.full && page < SEARCHED_PAGES; page += 1) {
    say(answer, "looking further back …");
    if (loading || !rows.first || !(await fetchOlder())) break;
    found = rows.find(name, before);
  }
  found ??= rows.find(name);
  say(answer, found ? "found, shown" : `${name} is not known`);
  answer.classList.toggle("red", !found);
  if (found) choose(found, true);
}

/** `north#22` is `3#22` if mote 3 is called north. */
function namedByMote(text) {
  const [mote, number] = text.split("#");
  const known = [...lanes.motes].find(([, name]) => name && name.toLowerCase() === mote.toLowerCase());
  return known && number ? `${known[0]}#${number}` : text;
}

// Filter

function listFilter() {
  keepChildren(byId("filter-list"), [...lanes.motes.keys()], (id) => id, (id) => {
    const box = make("input", { type: "checkbox", onchange: () => toggleMote(id) });
    return make("li", {}, make("label", {}, box, make("span")));
  }, (item, id) => {
    item.querySelector("input").checked = !shownMotes || shownMotes.has(id);
    say(item.querySelector("span"), network.title(id));
  });
  say(byId("filter-text"), shownMotes ? `${shownMotes.size} of ${lanes.motes.size}` : "Motes");
  byId("filter").classList.toggle("active", shownMotes !== null);
}

function toggleMote(id) {
  const shown = new Set(shownMotes ?? lanes.motes.keys());
  if (!shown.delete(id)) shown.add(id);
  showMotes(shown.size === lanes.motes.size ? null : shown);
}

function showMotes(ids) {
  shownMotes = ids;
  lanes.only(ids);
  listFilter();
  diagram.relane();
}

// Buttons, keys, colours

const KEYS = {
  ArrowLeft: () => pan(-0.2),
  ArrowRight: () => pan(0.2),
  PageUp: () => pan(-0.9),
  PageDown: () => pan(0.9),
  Home: () => rows.first && (view.centre(rows.first.came_ms), moved()),
  End: () => follow(true),
  "+": () => zoom(0.7),
  "=": () => zoom(0.7),
  "-": () => zoom(1.4),
  " ": () => follow(!view.following),
  n: () => step(1),
  p: () => step(-1),
  v: () => stepWrong(1),
  V: () => stepWrong(-1),
  Escape: () => details.close(),
};

function pan(share) {
  view.pan(share * view.span);
  moved();
}

function zoom(factor, at = middle()) {
  view.zoom(factor, at);
  moved();
}

/** The fixed point of a zoom by button: the newest time, the chosen message, or the middle. */
function middle() {
  const chosen = rows.byKey.get(diagram.selected)?.came_ms;
  if (view.following) return view.end;
  return chosen > view.from && chosen < view.end ? chosen : view.end - view.span / 2;
}

function pressKey(name) {
  KEYS[name]?.();
  return name in KEYS;
}

function hover(row, x, y) {
  const tip = byId("tip");
  const key = row?.key ?? null;
  if (key !== diagram.hovered) {
    diagram.hovered = key;
    diagram.request();
  }
  byId("diagram").style.cursor = row ? "pointer" : "";
  show(tip, Boolean(row));
  if (!row) return;
  const held = row.left_ms ? `held ${durationText(row.held_ms ?? row.left_ms - row.came_ms)}` : row.state;
  say(tip, `${row.name} · ${held}${row.wrong === "delivery" ? " · delivered out of order" : row.wrong ? " · came out of order" : ""}`);
  tip.style.transform = `translate(${Math.min(x + 14, diagram.width - 190)}px, ${Math.max(4, y - 34)}px)`;
}

new Gestures(diagram, {
  pan: (ms) => {
    view.pan(ms);
    moved();
  },
  zoom: (factor, ms) => zoom(factor, view.following ? view.end : ms),
  tap: choose,
  hover,
  key: pressKey,
});

const BUTTONS = {
  earlier: () => pan(-0.5),
  later: () => pan(0.5),
  "quiet-show": () => (view.centre(lastShown().came_ms), moved()),
  follow: () => follow(!view.following || hello?.live === false),
  "zoom-in": () => zoom(0.6),
  "zoom-out": () => zoom(1.6),
  "wrong-before": () => stepWrong(-1),
  "wrong-after": () => stepWrong(1),
  "filter-all": () => showMotes(null),
  "filter-none": () => showMotes(new Set()),
  theme: () => paintIn(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme ?? "") + 1) % THEMES.length]),
};
for (const [id, act] of Object.entries(BUTTONS)) byId(id).addEventListener("click", act);
byId("find").addEventListener("submit", (event) => {
  event.preventDefault();
  if (byId("find-name").value.trim()) search(byId("find-name").value);
});
byId("find-name").addEventListener("input", () => say(byId("find-answer"), ""));
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !byId("ask").open) details.close();
});
document.addEventListener("pointerdown", (event) => {
  if (!byId("filter").contains(event.target)) byId("filter").open = false;
});

function openTab(part) {
  document.body.dataset.tab = part;
  for (const button of document.querySelectorAll("nav button")) {
    button.toggleAttribute("aria-current", button.dataset.to === part);
  }
  values.refresh();
}
for (const button of document.querySelectorAll("nav button")) button.addEventListener("click", () => openTab(button.dataset.to));

function paintIn(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").setAttribute("aria-label", `Colours: ${theme || "as the system"}`);
  byId("theme").title = byId("theme").getAttribute("aria-label");
  try {
    localStorage.setItem("causeway-theme", theme);
  } catch {
    // Without storage the choice is lost on reload.
  }
  diagram.restyle();
}

function keptTheme() {
  try {
    return localStorage.getItem("causeway-theme") ?? "";
  } catch {
    return "";
  }
}

let toastTimer = null;
function toast(text) {
  say(byId("toast"), text);
  show(byId("toast"), true);
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => show(byId("toast"), false), 5000);
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => diagram.restyle());
diagram.onPaint = (seen) => {
  scrubber.paint(diagram.colour);
  sayQuiet(seen.count);
};
paintIn(keptTheme());
diagram.resize();
source.start();
