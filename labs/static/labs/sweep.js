// <staffloop-sweep data-url data-metrics>: a grid that a worker has measured, scrubbed by sliders. The server's page has
// selects and a table; here sliders take the selects' place, and charts with fixed axes stand above the table.
import { poll, renew, send } from "../quiz/api.js";
import { DARK, draw, nameDrawing } from "./charts.js";
import { crossing, cut, domainOf, lowestAt, rolesOf } from "./sweep-grid.js";

// Okabe and Ito's palette: told apart with any kind of colour vision, on light and dark ground. The shapes do it again.
const COLOURS = ["#E69F00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"];
const SHAPES = ["square", "circle", "triangle-up", "diamond", "cross", "triangle-down"];
// From this ratio of the largest to the least value on, lines are told apart on a logarithmic axis only.
const WIDE = 20;

/** Four significant digits, with separators. @param {number} value */
function significant(value) {
  if (Number.isInteger(value)) return value.toLocaleString("en-GB");
  const size = Math.abs(value);
  const places = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3;
  return value.toLocaleString("en-GB", { maximumFractionDigits: places });
}

/** a; a and b; a, b and c. @param {string[]} names */
function inWords(names) {
  return names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names[names.length - 1]}` : names[0];
}

/**
 * @param {string} title with its unit
 * @param {string} along title of the drawn axis, with its unit
 * @param {string[]} names of the lines
 * @param {number[]} xs
 * @param {[number, number]} domain
 */
function specOf(title, along, names, xs, [least, most]) {
  const y = { scale: { domain: [least, most], zero: false, nice: false, ...(most > WIDE * least && least > 0 ? { type: "log" } : {}) } };
  const axis = { values: xs, format: ",", labelOverlap: "greedy", labelFlush: false };
  const x = { field: "x", type: "quantitative", title: along, axis, scale: { type: "log", base: 2, domain: [xs[0], xs[xs.length - 1]], nice: false } };
  const middle = Math.sqrt(xs[0] * xs[xs.length - 1]);
  const beyond = `datum.x > ${middle}`;
  const line = { field: "line", type: "nominal", title: null };
  const legend = { orient: "top", symbolSize: 80, ...(names.length > 2 ? { columns: 2 } : {}) };
  return {
    width: "container",
    height: 230,
    background: "transparent",
    config: { font: getComputedStyle(document.body).fontFamily, axis: { labelFontSize: 12, titleFontSize: 12, titleFontWeight: 400 }, legend: { labelFontSize: 12 } },
    title: { text: title, anchor: "start", fontSize: 14 },
    layer: [
      {
        data: { name: "points", values: [] },
        mark: { type: "line", strokeWidth: 2.5, point: { size: 50, filled: true } },
        encoding: {
          x,
          y: { field: "value", type: "quantitative", title: null, ...y },
          color: { ...line, scale: { domain: names, range: COLOURS.slice(0, names.length) }, legend },
          shape: { ...line, scale: { domain: names, range: SHAPES.slice(0, names.length) }, legend },
          tooltip: [{ field: "x", title: along, format: "," }, { field: "line", title: "setting" }, { field: "value", title, format: ",.4~f" }],
        },
      },
      {
        data: { name: "crossing", values: [] },
        mark: { type: "rule", strokeDash: [5, 4], strokeWidth: 1.5 },
        encoding: { x },
      },
      {
        data: { name: "crossing", values: [] },
        mark: { type: "text", fontSize: 12, baseline: "top", dy: 4, align: { expr: `${beyond} ? 'right' : 'left'` }, dx: { expr: `${beyond} ? -5 : 5` } },
        encoding: { x, y: { value: 0 }, text: { field: "text" } },
      },
    ],
  };
}

class StaffloopSweep extends HTMLElement {
  connectedCallback() {
    this.stop = new AbortController();
    const near = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      near.disconnect();
      this.begin().catch((error) => console.warn("sweep:", error)); // the table stays
    }, { rootMargin: "300px" });
    near.observe(this);
    this.stop.signal.addEventListener("abort", () => near.disconnect());
    DARK.addEventListener("change", () => this.charts && this.drawAll(), { signal: this.stop.signal });
  }

  disconnectedCallback() {
    this.stop?.abort();
    for (const { chart } of this.charts || []) chart?.finalize();
  }

  async begin() {
    const url = this.dataset.url || "";
    const form = this.querySelector("form");
    if (this.dataset.state === "failed") return;
    if (!form) {
      const { signal } = /** @type {AbortController} */ (this.stop);
      await poll(url, (answer) => answer.state === "ready", signal);
      // The page has the table now; its element goes on from there.
      if (!signal.aborted) await renew("explore");
      return;
    }
    this.sweep = (await send("GET", url)).data;
    this.roles = rolesOf(this.sweep);
    this.slide(form);
    this.metrics = (this.dataset.metrics || "").split(" ");
    const place = /** @type {HTMLElement} */ (this.querySelector("[data-charts]"));
    this.charts = this.metrics.map((name) => {
      const holder = document.createElement("div");
      holder.className = "chart";
      place.append(holder);
      return { name, holder, chart: /** @type {any} */ (null) };
    });
    await this.drawAll();
  }

  /** A slider in the place of every select. @param {HTMLFormElement} form */
  slide(form) {
    this.selects = [...form.querySelectorAll("select")];
    for (const select of this.selects) {
      const slider = document.createElement("input");
      const shown = document.createElement("output");
      Object.assign(slider, { type: "range", min: "0", max: String(select.options.length - 1), step: "1", id: `${select.id}-slider`, value: String(select.selectedIndex) });
      slider.setAttribute("value", String(select.selectedIndex));
      const tell = () => {
        const text = select.options[select.selectedIndex].text;
        shown.textContent = text;
        slider.setAttribute("aria-valuetext", text);
      };
      slider.addEventListener("input", () => {
        select.selectedIndex = Number(slider.value);
        tell();
        this.show();
      });
      tell();
      form.querySelector(`label[for="${select.id}"]`)?.setAttribute("for", slider.id);
      select.hidden = true;
      select.after(slider, shown);
    }
    /** @type {HTMLElement} */ (form.querySelector("button")).hidden = true;
  }

  /** Where the sliders stand. @returns {Record<string, number>} */
  at() {
    return Object.fromEntries(this.selects.map((select) => [select.name, select.selectedIndex]));
  }

  /** What the table's head calls a metric. @param {string} name */
  titleOf(name) {
    return this.querySelector(`th[data-metric="${name}"]`)?.textContent?.trim() || name;
  }

  /** By what the page divides a metric: its head names a larger unit. @param {string} name */
  divisorOf(name) {
    const head = /** @type {HTMLElement | null} */ (this.querySelector(`th[data-metric="${name}"]`));
    return Number(head?.dataset.divisor) || 1;
  }

  /** What each line is called. @returns {Map<string, string>} its value → its name */
  names() {
    const heads = /** @type {HTMLElement[]} */ ([...this.querySelectorAll("th[data-line]")]);
    return new Map(heads.map((head) => [head.dataset.line || "", head.textContent?.trim() || ""]));
  }

  /** Two lines of off and on cross somewhere; others are compared where the axis begins and ends. */
  get isSwitch() {
    return this.roles.lines.values.every((/** @type {any} */ one) => typeof one === "boolean");
  }

  /** Lines that differ by less count as equal. */
  get least() {
    return Number(this.dataset.leastEffect) || 0;
  }

  async drawAll() {
    const along = this.querySelector("[data-along]")?.textContent?.trim() || "";
    for (const one of this.charts) {
      one.chart?.finalize();
      one.holder.replaceChildren();
      const divisor = this.divisorOf(one.name);
      const [least, most] = domainOf(this.sweep, one.name);
      const spec = specOf(this.titleOf(one.name), along, [...this.names().values()], this.roles.along.values, [least / divisor, most / divisor]);
      one.chart = await draw(one.holder, spec);
    }
    this.show();
  }

  /** The cut where the sliders stand, in charts, table and words. */
  show() {
    const names = this.names();
    for (const { name, holder, chart } of this.charts) {
      const points = cut(this.sweep, name, this.at());
      const { from, last } = this.isSwitch ? crossing(points, this.least) : { from: null, last: null };
      const mark = from === null || last === null ? [] : [{ x: from, text: `from ${significant(from)}` }];
      const drawn = points.map((point) => ({ ...point, value: point.value / this.divisorOf(name), line: names.get(String(point.line)) }));
      // A slider may be moved while the charts are still being drawn; the last of them shows all again.
      chart?.view.data("points", drawn).data("crossing", mark).runAsync();
      nameDrawing(holder, this.titleOf(name));
    }
    for (const cell of /** @type {NodeListOf<HTMLElement>} */ (this.querySelectorAll("td[data-metric]"))) {
      const points = cut(this.sweep, cell.dataset.metric || "", this.at());
      const found = points.find((point) => String(point.x) === cell.dataset.x && String(point.line) === cell.dataset.line);
      if (found) cell.textContent = significant(found.value / this.divisorOf(cell.dataset.metric || ""));
    }
    this.say();
  }

  /** In words, after a pause in the scrubbing, so that a screen reader reads the last state only. */
  say() {
    clearTimeout(this.saying);
    this.saying = setTimeout(() => {
      const place = this.querySelector("[data-summary]");
      if (place instanceof HTMLElement) place.textContent = `${place.dataset.what} ${this.endOfSentence()}.`;
    }, 250);
  }

  /** As the server ends it (labs/views/sweeps.py). */
  endOfSentence() {
    const { unit, values: xs } = this.roles.along;
    const points = cut(this.sweep, this.metrics[0], this.at());
    if (!this.isSwitch) {
      const names = this.names();
      const [there, then] = [xs[0], xs[xs.length - 1]].map((x) =>
        inWords(lowestAt(points, x, this.least).map((line) => names.get(line) || line)),
      );
      return `with ${there} at ${significant(xs[0])} ${unit}, with ${then} at ${significant(xs[xs.length - 1])}`;
    }
    const { from, last, lower, of } = crossing(points, this.least);
    if (lower === of) return "at every size of this grid";
    if (lower === 0) return "nowhere on this grid";
    if (from !== null && last !== null) return `from ${significant(from)} ${unit} on, not yet at ${significant(last)}`;
    return `at ${lower} of the ${of} sizes of this grid, not at ${significant(xs[xs.length - 1])} ${unit}`;
  }
}

customElements.define("staffloop-sweep", StaffloopSweep);
