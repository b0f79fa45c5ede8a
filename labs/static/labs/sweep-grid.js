// A sweep's grid of numbers: which axis is drawn along, which by lines, which are left to sliders; and one cut of it.

/** @typedef {{name: string, unit: string, values: any[]}} Axis */
/** @typedef {{name: string, unit: string, description: string, values: any[]}} Metric lists in lists, one depth an axis */
/** @typedef {{axes: Axis[], metrics: Metric[]}} Sweep */
/** @typedef {{x: number, line: boolean, value: number}} Point */

/**
 * Along: the numeric axis with the most values. By lines: the axis of false and true. Others: sliders.
 * @param {Sweep} sweep
 * @returns {{along: Axis, lines: Axis, others: Axis[]}}
 */
export function rolesOf({ axes }) {
  const [along] = axes
    .filter((axis) => axis.values.every((one) => typeof one === "number"))
    .sort((a, b) => b.values.length - a.values.length);
  const lines = axes.find((axis) => axis.values.every((one) => typeof one === "boolean"));
  if (!along || !lines) throw new TypeError("this sweep has no axis to draw along, or none of false and true");
  return { along, lines, others: axes.filter((axis) => axis !== along && axis !== lines) };
}

/**
 * The values of one metric along the drawn axis, for both lines, where the sliders stand.
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
 * From which x on the line of true lies below the line of false, up to the end.
 * @param {Point[]} points
 * @returns {{from: number | null, last: number | null}} from: null, nowhere; last: the x before it, where it does not
 */
export function crossing(points) {
  const xs = [...new Set(points.map((point) => point.x))].sort((a, b) => a - b);
  const at = (/** @type {number} */ x, /** @type {boolean} */ line) =>
    /** @type {Point} */ (points.find((point) => point.x === x && point.line === line)).value;
  const rest = [...xs].reverse();
  const above = rest.find((x) => !(at(x, true) < at(x, false)));
  if (above === undefined) return { from: xs[0], last: null };
  const from = xs.find((x) => x > above);
  return { from: from ?? null, last: from === undefined ? null : above };
}
