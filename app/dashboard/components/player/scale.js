// Numbers of the plots: bounds, steps of axes, written values, and the part that is shown.

/** @typedef {import("./clock.js").Span} Span */
/** @typedef {(number | null)[]} Values */

const LEAST_WINDOW = 0.2;

/**
 * Lowest and highest value with some room; null values are left out.
 *
 * @param {Values[]} rows
 * @returns {[low: number, high: number]}
 */
export function bounds(rows) {
  const [low, high] = extremes(rows.flat());
  if (low > high) return [0, 1];
  const room = (high - low) * 0.05 || Math.abs(high) * 0.1 || 0.5;
  return [low - room, high + room];
}

/**
 * Lowest and highest value; the lowest is above the highest where there is none.
 *
 * @param {Values} values
 * @returns {[low: number, high: number]}
 */
export function extremes(values) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value === null) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return [low, high];
}

/**
 * Round numbers between two others, about as many as a count.
 *
 * @param {number} low
 * @param {number} high
 * @param {number} count
 */
export function niceSteps(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5].find((factor) => factor * power >= rough) ?? 10) * power;
  const steps = [];
  for (let number = Math.ceil(low / step); number * step <= high + step * 1e-6; number++) {
    steps.push(Number((number * step).toPrecision(12)) + 0);
  }
  return steps;
}

const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400];
const MINUTE = 60;

/**
 * Seconds for the axis of time: as round numbers, of minutes and hours where there are so many.
 *
 * @param {number} low
 * @param {number} high
 * @param {number} count
 */
export function timeSteps(low, high, count) {
  const rough = (high - low) / count;
  const step = TIME_STEPS.find((size) => size >= rough);
  if (rough < 1 || !step) return niceSteps(low, high, count);
  const steps = [];
  for (let number = Math.ceil(low / step); number * step <= high; number++) steps.push(number * step);
  return steps;
}

/**
 * A second of an axis: "7 s", and from two minutes on "2:05" or "1:30:00".
 *
 * @param {number} second
 * @param {number} longest The last second of the axis.
 */
export function writeSecond(second, longest) {
  if (longest < 2 * MINUTE) return `${second} s`;
  const whole = Math.round(second);
  const pad = (/** @type {number} */ number) => String(number).padStart(2, "0");
  const minutes = Math.floor(whole / MINUTE);
  if (longest < MINUTE * MINUTE) return `${minutes}:${pad(whole % MINUTE)}`;
  return `${Math.floor(minutes / MINUTE)}:${pad(minutes % MINUTE)}:${pad(whole % MINUTE)}`;
}

/**
 * A moment with hundredths: "1:30:00.25" of a long episode.
 *
 * @param {number} second
 * @param {number} longest The last second of the episode.
 */
export function writeClock(second, longest) {
  const hundredths = Math.floor(second * 100 + 1e-6);
  const whole = Math.floor(hundredths / 100);
  return `${writeSecond(whole, longest)}.${String(hundredths % 100).padStart(2, "0")}`;
}

/**
 * @typedef {object} Column What a line has in one column of pixels.
 * @property {number} x
 * @property {number} low
 * @property {number} high
 * @property {number} mean
 * @property {number} count
 */

/**
 * The lowest, the highest and the mean value of a line in each column of pixels that has one.
 *
 * @param {number[]} xs Pixels of the values, in order.
 * @param {Values} values
 * @returns {Column[]}
 */
export function bandColumns(xs, values) {
  /** @type {Column[]} */
  const columns = [];
  values.forEach((value, index) => {
    if (value === null) return;
    const x = Math.round(xs[index]);
    const last = columns.at(-1);
    if (!last || last.x !== x) columns.push({ x, low: value, high: value, mean: value, count: 1 });
    else {
      last.low = Math.min(last.low, value);
      last.high = Math.max(last.high, value);
      last.count += 1;
      last.mean += (value - last.mean) / last.count;
    }
  });
  return columns;
}

/** @param {number | null | undefined} value */
export function writeValue(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size >= 1e5 || (size > 0 && size < 1e-3)) return value.toExponential(1);
  return value.toFixed(size >= 100 ? 1 : 3);
}

/**
 * Share of a number between two others, 0 to 1.
 *
 * @param {number} value
 * @param {number} low
 * @param {number} high
 */
export function shareOf(value, low, high) {
  return high > low ? Math.max(0, Math.min(1, (value - low) / (high - low))) : 0;
}

/**
 * The window shortened or lengthened around a second, which stays where it is.
 *
 * @param {Span} shown
 * @param {number} factor Below 1 shows less.
 * @param {number} centre Seconds.
 * @param {number} duration
 * @returns {Span}
 */
export function zoom(shown, factor, centre, duration) {
  const length = shown.stop - shown.start;
  const wide = Math.min(duration, Math.max(LEAST_WINDOW, length * factor));
  const start = centre - shareOf(centre, shown.start, shown.stop) * wide;
  return shift({ start, stop: start + wide }, duration);
}

/**
 * The window moved so that a second is inside: by pages, as a text is turned.
 *
 * @param {Span} shown
 * @param {number} time
 * @param {number} duration
 * @returns {Span}
 */
export function follow(shown, time, duration) {
  if (time >= shown.start && time <= shown.stop) return shown;
  const length = shown.stop - shown.start;
  return shift({ start: time - length * 0.1, stop: time + length * 0.9 }, duration);
}

/**
 * @param {Span} shown
 * @param {number} duration
 * @returns {Span}
 */
function shift(shown, duration) {
  const length = Math.min(duration, shown.stop - shown.start);
  const start = Math.max(0, Math.min(shown.start, duration - length));
  return { start, stop: start + length };
}
