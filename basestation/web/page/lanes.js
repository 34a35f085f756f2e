// The lanes of the diagram: motes at the top, then gateways, then the observer.

const LANE = { top: 10, axis: 24, gap: 0.35, observer: 1.7, tallest: 46 };

export class Lanes {
  constructor() {
    this.motes = new Map(); // id -> name
    this.gateways = [];
    this.hidden = new Set(); // ids of motes that are filtered out
    this.list = [];
    this.size = [0, 0];
  }

  describe(hello) {
    this.motes = new Map(hello.motes.map(({ id, name }) => [id, name]));
    this.gateways = hello.gateways.map(({ id, name }) => ({ id, name }));
    if (!this.gateways.length) this.gateways = [{ id: 0, name: "" }];
    this.hidden.clear();
    this.#place();
  }

  /** A mote that the deployment does not list gets a lane all the same. */
  meet(id) {
    if (this.motes.has(id)) return;
    this.motes.set(id, "");
    this.motes = new Map([...this.motes].sort(([one], [other]) => one - other));
    this.#place();
  }

  /** Show only these motes; null shows all. */
  only(ids) {
    this.hidden = new Set(ids ? [...this.motes.keys()].filter((id) => !ids.has(id)) : []);
    this.#place();
  }

  fit(width, height) {
    this.size = [width, height];
    this.#place();
  }

  #place() {
    const shown = [...this.motes].filter(([id]) => !this.hidden.has(id));
    const [, height] = this.size;
    const parts = shown.length + this.gateways.length + LANE.gap + LANE.observer;
    this.step = Math.max(2, Math.min(LANE.tallest, (height - LANE.top - LANE.axis) / parts));
    let y = LANE.top;
    this.list = [];
    this.moteY = new Map();
    const lane = (kind, id, name, share) => {
      this.list.push({ kind, id, name, top: y, height: share * this.step, y: y + (share * this.step) / 2 });
      y += share * this.step;
      return this.list.at(-1).y;
    };
    for (const [id, name] of shown) this.moteY.set(id, lane("mote", id, name, 1));
    y += LANE.gap * this.step;
    this.gatewayY = this.gateways.map(({ id, name }) => lane("gateway", id, name, 1));
    this.observerY = lane("observer", null, "", LANE.observer) - 0.35 * this.step;
    this.bottom = y;
  }

  yOfGateway(number) {
    return this.gatewayY[number] ?? this.gatewayY[0];
  }
}
