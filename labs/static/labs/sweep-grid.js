// A sweep's grid of numbers: which axis is drawn along, which by lines, which are left to sliders; and one cut of it.

/** @typedef {{name: string, unit: string, values: any[]}} Axis */
/** @typedef {{name: string, unit: string, description: string, values: any[]}} Metric lists in lists, one depth an axis */
/** @typedef {{axes: Axis[], lines: string, metrics: Metric[]}} Sweep lines: the axis that charts compare */
/** @typedef {{x: number, line: boolean | string, value: number}} Point */

/**
 * Along: the numeric axis with the most values. By lines: the one that the sweep names. Others: sliders.
 * @param {Sweep} sweep
 * @returns {{along: Axis, lines: Axis, others: Axis[]}}
 */
export function rolesOf({ axes, lines: name }) {
  const lines = axes.find((axis) => axis.name === name);
  const [along] = axes
    .filter((axis) => axis !== lines && axis.values.every((one) => typeof one === "number"))
    .sort((a, b) => b.values.length - a.values.length);
  if (!along || !lines) throw new TypeError("this sweep has no axis to draw along, or none for its lines");
  return { along, lines, others: axes.filter((axis) => axis !== along && axis !== lines) };
}

/**
 * The values of one metric along the drawn axis, for all lines, where the sliders stand.
 * @param {Sweep} sweep
 * @param {string} name of the metric
 * @param {Record<string, number>} at axis → index of its value
 * @returns {Point[]}
 */
export function cut(sweep, name, at) {
  const { along, lines } = rolesOf(sweep);
  const metric = /** @type {Metric} */ (sweep.metrics.find((one) => one.name === name));
  return along.values.flatMap((x, place) =>
    lines.values.map((line, which) => {
      const index = { ...at, [along.name]: place, [lines.name]: which };
      const value = sweep.axes.reduce((inner, axis) => inner[index[axis.name]], metric.values);
      return { x, line, value: /** @type {any} */ (value) };
    }),
  );
}

/**
 * The least and the largest value over the whole grid, so that a slider moves the lines and not the axis.
 * @param {Sweep} sweep
 * @param {string} name of the metric
 * @returns {[number, number]}
 */
export function domainOf(sweep, name) {
  const metric = /** @type {Metric} */ (sweep.metrics.find((one) => one.name === name));
  const all = metric.values.flat(sweep.axes.length);
  return [Math.min(...all), Math.max(...all)];
}

/**
 * From which x on the line of true lies below the line of false, up to the end, by more than a part of it.
 * @param {Point[]} points
 * @param {number} least part of the line of false by which the other one has to be lower: less is noise
 * @returns {{from: number | null, last: number | null, lower: number, of: number}} from: null, not up to the end; last:
 * the x before it, where it is not lower; lower: at so many of all the x
 */
export function crossing(points, least) {
  const xs = [...new Set(points.map((point) => point.x))].sort((a, b) => a - b);
  const at = (/** @type {number} */ x, /** @type {boolean} */ line) =>
    /** @type {Point} */ (points.find((point) => point.x === x && point.line === line)).value;
  const not = xs.filter((x) => !(at(x, true) < at(x, false) * (1 - least)));
  const counts = { lower: xs.length - not.length, of: xs.length };
  if (!not.length) return { from: xs[0], last: null, ...counts };
  const above = not[not.length - 1];
  const from = xs.find((x) => x > above);
  return { from: from ?? null, last: from === undefined ? null : above, ...counts };
}

/**
 * Which lines are lowest at an x: the least, and those at most a part above it, from the least on.
 * @param {Point[]} points
 * @param {number} x
 * @param {number} least
 * @returns {string[]}
 */
export function lowestAt(points, x, least) {
  const there = points.filter((point) => point.x === x);
  const most = Math.min(...there.map((point) => point.value)) * (1 + least);
  return there
    .filter((point) => point.value <= most)
    .sort((a, b) => a.value - b.value || (String(a.line) < String(b.line) ? -1 : 1))
    .map((point) => String(point.line));
}
