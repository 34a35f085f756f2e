// The stretch of time in view.

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

  /** The newest time in view while following, with a little room for messages on their way. */
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

  /** Zoom by a factor around the time `at`. While following, the newest time stays at the edge. */
  zoom(factor, at = this.end) {
    const span = Math.min(MOST_MS, Math.max(LEAST_MS, this.span * factor));
    const share = (this.end - at) / this.span;
    this.span = span;
    if (!this.following) this.end = at + share * span;
  }

  /** Keep the view within the run. */
  clamp(first, now) {
    const latest = now + this.span * 0.1;
    const earliest = first + this.span * 0.1;
    this.end = Math.max(Math.min(this.end, latest), Math.min(earliest, latest));
  }
}
