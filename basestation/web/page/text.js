// Numbers and times as text.

const two = (number) => String(number).padStart(2, "0");

/** The time of day, such as 14:03:21; with milliseconds if `fine`. */
export function clockText(ms, fine = false) {
  const date = new Date(ms);
  const text = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return fine ? `${text}.${String(date.getMilliseconds()).padStart(3, "0")}` : text;
}

/** A duration in short: 0.4 ms, 61 ms, 1.2 s, 3 min, 2 h, 4 d. */
export function durationText(ms) {
  const size = Math.abs(ms);
  if (size < 9.95) return `${+ms.toFixed(1)} ms`;
  if (size < 999.5) return `${Math.round(ms)} ms`;
  if (size < 9950) return `${+(ms / 1000).toFixed(1)} s`;
  if (size < 120e3) return `${Math.round(ms / 1000)} s`;
  if (size < 120 * 60e3) return `${Math.round(ms / 60e3)} min`;
  if (size < 48 * 3600e3) return `${Math.round(ms / 3600e3)} h`;
  return `${Math.round(ms / 86400e3)} d`;
}

/** A count, such as 12,345. */
export function countText(number) {
  return number.toLocaleString("en");
}

/** A measured number with four digits, for a label. */
export function measureText(number) {
  return Number.isInteger(number) ? countText(number) : String(+number.toPrecision(4));
}

/** `1 message`, `2 messages`. */
export function manyText(count, word) {
  return `${countText(count)} ${word}${count === 1 ? "" : "s"}`;
}
