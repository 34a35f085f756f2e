// Held messages and why, the cost of the policy, and the trial of another policy.

import { byId, confirmed, keepChildren, make, say, show } from "./dom.js";
import { countText, durationText } from "./text.js";

const SHOWN = 12;
const SETTLE_TRIAL_MS = 250; // the slider must rest this long before a trial starts
const PHI = ["dapw", "cbd"];

export class Queue {
  constructor(source) {
    this.source = source;
    this.form = byId("policy");
    this.choice = byId("policy-choice");
    this.slider = byId("policy-slider");
    this.answer = byId("trial");
    this.change = byId("policy-change");
    this.choice.addEventListener("change", () => this.#aim(true));
    this.slider.addEventListener("input", () => this.#aim(false));
    this.form.addEventListener("submit", (event) => this.#submit(event));
  }

  describe(hello) {
    this.hello = hello;
    this.now = null;
    this.tried = false;
    show(byId("try"), this.source.canTry);
    this.choice.replaceChildren(...(hello.policies ?? []).map((policy) => make("option", { value: policy }, policy)));
    this.change.disabled = true;
    say(this.answer, "Choose, and it is tried out on the last minutes first.");
  }

  show(picture) {
    this.#figures(picture);
    this.#ledger(picture);
    this.#held(picture);
    if (this.now === null) this.#start(picture);
    this.now = picture;
    say(byId("policy-now"), policyText(picture));
    this.#allow();
  }

  /** The button works once another policy was tried, if changes are allowed. */
  #allow() {
    const same = this.now !== null && policyText(this.wanted) === policyText(this.now);
    this.change.disabled = !this.hello.control || !this.tried || same;
    const looks = this.hello.live
      ? "This page is read-only. Start the base station with --web-control to change the policy from here."
      : "A recorded run can be tried with another policy, but not changed.";
    say(byId("policy-why"), !this.hello.control ? looks : this.tried && same ? "This is the policy now." : "");
  }

  #start({ policy, phi, tolerate }) {
    if ([...this.choice.options].some((option) => option.value === policy)) this.choice.value = policy;
    this.#range();
    this.slider.value = String(this.choice.value === "ledger" ? (tolerate ?? 0) : (phi ?? 100));
    this.#label();
  }

  #figures({ hold, arrival, delivery, held, known }) {
    for (const [name, { messages, overtaken, possible }] of [["came", arrival], ["left", delivery]]) {
      const counts = possible ? `at least ${countText(overtaken)}, at most ${countText(overtaken + possible)}` : countText(overtaken);
      say(byId(`order-${name}`), `${counts} of ${countText(messages)} (${shareText(messages, overtaken, possible)})`);
      byId(`order-${name}-bar`).style.width = `${messages ? (100 * overtaken) / messages : 0}%`;
    }
    const certain = known === null ? "" : `${percentText(known)} of the messages were checked fully: it is known whether one of their effects left before them.`;
    say(byId("order-known"), certain);
    say(byId("held-now"), countText(held));
    for (const name of ["mean", "p95", "max"]) {
      say(byId(`hold-${name}`), hold?.[name] === null || hold?.[name] === undefined ? "–" : durationText(hold[name]));
    }
  }

  #ledger({ ledger, tolerate }) {
    show(byId("ledger"), Boolean(ledger));
    if (!ledger) return;
    const promise = `At most ${tolerate}% of the messages may come in wrong order: `;
    const spent = `${countText(ledger.spent)} of ${countText(Math.floor(ledger.allowed))} allowed so far.`;
    say(byId("ledger-text"), promise + spent);
    byId("ledger-bar").style.width = `${Math.min(100, (100 * ledger.spent) / Math.max(1, ledger.allowed))}%`;
    byId("ledger-bar").classList.toggle("over", ledger.spent > ledger.allowed);
    say(byId("ledger-wait"), `It waits ${durationText(ledger.wait_ms)} now; the safe wait is ${durationText(ledger.most_ms)}.`);
  }

  #held({ queue }) {
    const build = () => make("li", { class: "held" }, make("b"), make("span", { class: "why" }), make("span", { class: "time" }));
    keepChildren(byId("queue"), queue.slice(0, SHOWN), ({ name }) => name, build, (item, message) => {
      item.classList.toggle("tentative", Boolean(message.tentative));
      say(item.children[0], message.name);
      say(item.children[1], message.why || "waits until nothing earlier can come");
      say(item.children[2], durationText(message.held_ms));
    });
    const more = queue.length - SHOWN;
    say(byId("queue-more"), more > 0 ? `and ${countText(more)} more` : queue.length ? "" : "Nothing is held now.");
  }

  #range() {
    const ledger = this.choice.value === "ledger";
    const numbered = ledger || PHI.includes(this.choice.value);
    for (const id of ["policy-slider", "policy-what", "policy-value"]) show(byId(id), numbered);
    [this.slider.min, this.slider.max, this.slider.step] = ledger ? ["0", "5", "0.1"] : ["0", "100", "1"];
    say(byId("policy-what"), ledger ? "may be out of order" : "of the safe wait (phi)");
  }

  #label() {
    const text = `${Number(this.slider.value)}%`;
    say(byId("policy-value"), text);
    this.slider.setAttribute("aria-valuetext", text);
  }

  get wanted() {
    const policy = this.choice.value;
    const number = Number(this.slider.value);
    if (policy === "ledger") return { policy, tolerate: number };
    return PHI.includes(policy) ? { policy, phi: number } : { policy };
  }

  #aim(other) {
    if (other) {
      this.#range();
      this.slider.value = this.choice.value === "ledger" ? "0.5" : String(this.now?.phi ?? 100);
    }
    this.#label();
    this.tried = false;
    this.#allow();
    clearTimeout(this.timer);
    say(this.answer, "Trying it out …");
    this.timer = setTimeout(() => this.#try(this.wanted), SETTLE_TRIAL_MS);
  }

  async #try(wanted) {
    const asked = (this.asked = JSON.stringify(wanted));
    const tried = await this.source.trial(wanted).catch((error) => ({ text: error.message, failed: true }));
    if (asked !== this.asked) return; // the slider has moved on
    say(this.answer, tried.text);
    this.tried = !tried.failed;
    this.#allow();
  }

  async #submit(event) {
    event.preventDefault();
    if (!this.hello.control || this.change.disabled) return;
    const { wanted } = this;
    const question = `Change the policy of this run from ${policyText(this.now)} to ${policyText(wanted)}? It holds for every viewer.`;
    if (!(await confirmed(question, "Change it"))) return;
    try {
      say(this.answer, (await this.source.changePolicy(wanted)).text);
    } catch (error) {
      say(this.answer, error.message);
    }
  }
}

/** A policy in words, such as `cbd, phi 40%`. */
export function policyText({ policy, phi, tolerate }) {
  if (PHI.includes(policy) && phi !== null && phi !== undefined) return `${policy}, phi ${phi}%`;
  if (policy === "ledger") return `ledger, tolerates ${tolerate ?? 0}%`;
  return policy ?? "";
}

/** The share of messages out of order, as two bounds if some are uncertain. */
export function shareText(messages, overtaken, possible) {
  const [least, most] = [overtaken, overtaken + possible].map((count) => percentText(messages ? count / messages : 0));
  return least === most ? least : `${least} to ${most}`;
}

/** A share as a percentage, with as few digits as possible. */
export function percentText(share) {
  const percent = 100 * share;
  return `${percent === 0 || percent >= 10 ? Math.round(percent) : +percent.toPrecision(2)}%`;
}
