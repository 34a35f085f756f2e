// The lanes of the diagram: motes at the top, then gateways, then the observer.

const LANE = { top: 10, axis: 24, gap: 0.35, hold: 30, observer: 56, tallest: 46 }; // gap in lanes, others in pixels
const FEW = 12; // motes that have a lane before they are heard

export class Lanes {
  constructor() {
    this.motes = new Map(); // id -> name
    this.gateways = [];
    this.hidden = new Set(); // ids of motes that are filtered out
    this.heard = new Set();
    this.list = [];
    this.size = [0, 0];
  }

  describe(hello) {
    this.motes = new Map(hello.motes.map(({ id, name }) => [id, name]));
    const several = hello.gateways.length > 1; // a single one needs no name
    this.gateways = hello.gateways.map(({ id, name }) => ({ id, name: several ? name : "" }));
    if (!this.gateways.length) this.gateways = [{ id: 0, name: "" }];
    this.hidden.clear();
    this.heard.clear();
    this.#place();
  }

  /** A mote was heard: true if it is new. A mote that the deployment does not list also gets a lane. */
  meet(id) {
    if (this.heard.has(id)) return false;
    this.heard.add(id);
    if (!this.motes.has(id)) {
      this.motes.set(id, "");
      this.motes = new Map([...this.motes].sort(([one], [other]) => one - other));
    }
    this.#place();
    return true;
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
    const few = this.motes.size <= FEW;
    const shown = [...this.motes].filter(([id]) => !this.hidden.has(id) && (few || this.heard.has(id)));
    const room = this.size[1] - LANE.top - LANE.axis - LANE.hold - LANE.observer;
    this.step = Math.max(2, Math.min(LANE.tallest, room / (shown.length + this.gateways.length + LANE.gap)));
    let y = LANE.top;
    this.list = [];
    this.moteY = new Map();
    const lane = (kind, id, name, height) => {
      this.list.push({ kind, id, name, top: y, height, y: y + height / 2 });
      y += height;
      return this.list.at(-1).y;
    };
    for (const [id, name] of shown) this.moteY.set(id, lane("mote", id, name, this.step));
    y += LANE.gap * this.step;
    this.gatewayY = this.gateways.map(({ id, name }) => lane("gateway", id, name, this.step));
    y += LANE.hold;
    this.observerY = lane("observer", null, "", LANE.observer) - LANE.observer / 2 + 13;
    this.bottom = y;
  }

  yOfGateway(number) {
    return this.gatewayY[number] ?? this.gatewayY[0];
  }
}
