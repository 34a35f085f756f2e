// Thousands of lines as one picture: each pixel counts the lines through it, and the count becomes its strength.
// A line costs two additions for each column that it crosses; a stroke costs all its pixels.

const STRONGEST = 64;

export class Density {
  constructor() {
    this.canvas = document.createElement("canvas");
    this.context = this.canvas.getContext("2d");
    this.width = 0;
    this.height = 0;
  }

  /** Begin a picture of this size, in CSS pixels. */
  clear(width, height) {
    if (width !== this.width || height !== this.height) {
      [this.width, this.height] = [width, height];
      [this.canvas.width, this.canvas.height] = [width, height];
      this.steps = new Int16Array(width * (height + 1)); // by column: where runs of lines begin and end
      this.image = this.context.createImageData(width, height);
      this.pixels = new Uint32Array(this.image.data.buffer);
    } else this.steps.fill(0);
  }

  /** A run of pixels in one column. */
  run(x, top, bottom, weight = 1) {
    if (x < 0 || x >= this.width) return;
    const column = x * (this.height + 1);
    this.steps[column + Math.max(0, Math.min(this.height, top))] += weight;
    this.steps[column + Math.max(0, Math.min(this.height, bottom))] -= weight;
  }

  line(x1, y1, x2, y2) {
    if (x1 > x2) [x1, y1, x2, y2] = [x2, y2, x1, y1];
    const slope = x2 - x1 < 1e-6 ? 0 : (y2 - y1) / (x2 - x1);
    const first = Math.max(0, Math.floor(x1));
    const last = Math.min(this.width - 1, Math.floor(x2));
    for (let x = first; x <= last; x += 1) {
      const from = x <= x1 ? y1 : y1 + (x - x1) * slope;
      const to = x + 1 >= x2 ? y2 : y1 + (x + 1 - x1) * slope;
      const top = Math.floor(Math.min(from, to));
      this.run(x, top, Math.max(top + 1, Math.floor(Math.max(from, to))));
    }
  }

  lines(ends) {
    for (let at = 0; at < ends.length; at += 4) this.line(ends[at], ends[at + 1], ends[at + 2], ends[at + 3]);
  }

  /** Draw the counts in a colour, `#rrggbb`; a single line has the strength `faint`. */
  paint(context, colour, faint) {
    const rgb = (parseInt(colour.slice(5, 7), 16) << 16) | (parseInt(colour.slice(3, 5), 16) << 8) | parseInt(colour.slice(1, 3), 16);
    const tones = new Uint32Array(STRONGEST + 1);
    for (let count = 1; count <= STRONGEST; count += 1) {
      tones[count] = ((Math.round(255 * (1 - (1 - faint) ** count)) << 24) | rgb) >>> 0;
    }
    const { width, height, steps, pixels } = this;
    for (let x = 0; x < width; x += 1) {
      const column = x * (height + 1);
      let count = 0;
      for (let y = 0, at = x; y < height; y += 1, at += width) {
        count += steps[column + y];
        pixels[at] = tones[count < STRONGEST ? count : STRONGEST];
      }
    }
    this.context.putImageData(this.image, 0, 0);
    context.drawImage(this.canvas, 0, 0, width, height);
  }
}
