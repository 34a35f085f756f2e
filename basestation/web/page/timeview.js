// Which stretch of time is in view.

const LEAST_MS = 20;
const MOST_MS = 24 * 3600e3;

export class TimeView {
  constructor(span) {
    this.span = span;
    this.end = 0;
    this.following = true;
  }

  get from() {
    return this.end - this.span;
  }

  /** The newest time that is shown while following: a little room is left for what is on its way. */
  follow(now) {
    this.end = now + this.span * 0.02;
  }

  pan(ms) {
    this.following = false;
    this.end += ms;
  }

  centre(ms) {
    this.following = false;
    this.end = ms + this.span / 2;
  }

  /** Zoom by a factor; what is at `at` stays where it is. While following, the newest stays at the edge. */
  zoom(factor, at = this.end) {
    const span = Math.min(MOST_MS, Math.max(LEAST_MS, this.span * factor));
    const share = (this.end - at) / this.span;
    this.span = span;
    if (!this.following) this.end = at + share * span;
  }

  /** Keep the view where there is something to see. */
  clamp(first, now) {
    const latest = now + this.span * 0.1;
    const earliest = first + this.span * 0.1;
    this.end = Math.max(Math.min(this.end, latest), Math.min(earliest, latest));
  }
}
