// All loaded messages as a strip below the diagram: how many, which out of order, and the part in view.

const SETTLE_MS = 400; // least time between two counts for the strip

export class Scrubber {
  constructor(canvas, rows, view, now, onMove) {
    Object.assign(this, { canvas, rows, view, now, onMove });
    this.context = canvas.getContext("2d");
    this.counted = { version: -1, at: 0, columns: [] };
    const move = (event) => {
      if (event.buttons || event.type === "pointerdown") this.onMove(this.#msAt(event.offsetX));
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      move(event);
    });
    canvas.addEventListener("pointermove", move);
  }

  get span() {
    const first = this.rows.first?.came_ms ?? this.view.from;
    return [Math.min(first, this.view.from), Math.max(this.now(), this.view.end)];
  }

  #msAt(x) {
    const [from, to] = this.span;
    return from + (x / this.canvas.clientWidth) * (to - from);
  }

  paint(colour) {
    this.colour = colour;
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width) return;
    if (this.canvas.width !== width * ratio) [this.canvas.width, this.canvas.height] = [width * ratio, height * ratio];
    const context = this.context;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const [from, to] = this.span;
    this.#count(width);
    const { columns, most } = this.counted;
    for (const tone of ["message", "amber", "red"]) {
      context.fillStyle = colour[tone];
      for (const [x, column] of columns.entries()) {
        if (!column?.[tone]) continue;
        const tall = tone === "message" ? Math.sqrt(column.message / most) * (height - 6) : tone === "amber" ? 7 : 11;
        context.fillRect(x * 2, height - tall, tone === "message" ? 1.5 : 2.5, tall);
      }
    }
    const pace = width / (to - from || 1);
    const [left, right] = [(this.view.from - from) * pace, (this.view.end - from) * pace];
    const wide = Math.max(8, right - left);
    context.fillStyle = colour.accent;
    context.globalAlpha = 0.16;
    context.fillRect(left, 0, wide, height);
    context.globalAlpha = 1;
    context.strokeStyle = colour.accent;
    context.lineWidth = 1.5;
    context.strokeRect(left + 0.75, 0.75, wide - 1.5, height - 1.5);
  }

  #again() {
    this.later = null;
    this.paint(this.colour);
  }

  #count(width) {
    const now = performance.now();
    const { version, at } = this.counted;
    if (version === this.rows.version && this.counted.width === width) return;
    if (now - at < SETTLE_MS && version !== -1 && this.counted.width === width) {
      this.later ??= setTimeout(() => this.#again(), SETTLE_MS);
      return;
    }
    const [from, to] = this.span;
    const columns = [];
    const scale = width / 2 / (to - from || 1);
    for (const row of this.rows.messages) {
      const column = (columns[Math.floor((row.came_ms - from) * scale)] ??= { message: 0, amber: 0, red: 0 });
      column.message += 1;
      if (row.wrong) column[row.wrong === "delivery" ? "red" : "amber"] += 1;
    }
    const most = columns.reduce((high, column) => Math.max(high, column?.message ?? 0), 1);
    this.counted = { version: this.rows.version, at: now, width, columns, most };
  }
}
