// Fingers, mouse and keys on the diagram: drag, pinch, wheel, tap, arrows.

const TAP_PX = 6;

export class Gestures {
  /** `on` has pan(ms), zoom(factor, ms), tap(row), hover(row, x, y), step(by), key(name). */
  constructor(diagram, on) {
    Object.assign(this, { diagram, on });
    this.pointers = new Map();
    this.moved = 0;
    const { canvas } = diagram;
    canvas.addEventListener("pointerdown", (event) => this.#down(event));
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, (event) => this.#up(event));
    canvas.addEventListener("pointerleave", () => this.on.hover(null));
    canvas.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    canvas.addEventListener("keydown", (event) => this.#key(event));
  }

  #down(event) {
    this.diagram.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    if (this.pointers.size === 1) this.moved = 0;
    else this.moved = TAP_PX + 1;
  }

  #move(event) {
    const before = this.pointers.get(event.pointerId);
    const at = [event.offsetX, event.offsetY];
    if (!before) {
      if (event.pointerType === "mouse") this.#hover(...at);
      return;
    }
    if (this.pointers.size === 1) {
      this.moved += Math.abs(at[0] - before[0]) + Math.abs(at[1] - before[1]);
      if (this.moved > TAP_PX) this.on.pan((before[0] - at[0]) / this.diagram.perMs);
    } else if (this.pointers.size === 2) {
      const other = [...this.pointers].find(([id]) => id !== event.pointerId)[1];
      const was = Math.max(20, Math.abs(before[0] - other[0]));
      const is = Math.max(20, Math.abs(at[0] - other[0]));
      this.on.zoom(was / is, this.diagram.msAt((at[0] + other[0]) / 2));
    }
    this.pointers.set(event.pointerId, at);
  }

  #up(event) {
    const tapped = this.pointers.has(event.pointerId) && this.moved <= TAP_PX && event.type === "pointerup";
    this.pointers.delete(event.pointerId);
    const reach = event.pointerType === "mouse" ? 12 : 24;
    if (tapped) this.on.tap(this.diagram.hit(event.offsetX, event.offsetY, reach));
  }

  #hover(x, y) {
    this.on.hover(this.diagram.hit(x, y, 10), x, y);
  }

  #wheel(event) {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) {
      this.on.pan(((event.deltaX || event.deltaY) * lines) / this.diagram.perMs);
    } else {
      const speed = event.ctrlKey ? 0.01 : 0.0016;
      this.on.zoom(Math.exp(event.deltaY * lines * speed), this.diagram.msAt(event.offsetX));
    }
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (this.on.key(event.key)) event.preventDefault();
  }
}
