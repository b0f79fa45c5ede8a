// <staffloop-figure data-spec>: a figure is a picture until it comes into view, then the interactive chart.
// Vega interprets its expressions (no eval) and writes no <style>: the page's Content-Security-Policy stays strict.
import { send } from "../quiz/api.js";

const DARK = matchMedia("(prefers-color-scheme: dark)");

/** @param {string} name a custom property of the stylesheet */
function token(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/**
 * A headline broken into lines that fit; Vega itself would cut it off. An expression is left as it is.
 * @param {unknown} text
 * @param {number} width in CSS pixels
 */
function lines(text, width) {
  if (typeof text !== "string") return text;
  const most = Math.max(16, Math.floor(width / 8));
  return text.match(new RegExp(`.{1,${most}}(?:\\s|$)|\\S+`, "g")) || text;
}

/**
 * The spec in the page's present ink; sizes, marks and palette stay as the spec says.
 * @param {any} spec
 * @param {number} width of the place where it is drawn
 */
function inked(spec, width) {
  const ink = token("--ink");
  const muted = token("--muted");
  const line = token("--line");
  const guide = { labelColor: muted, titleColor: ink, gridColor: line, domainColor: muted, tickColor: muted };
  /** @type {Record<string, object>} */
  const colours = {
    axis: guide,
    header: { labelColor: muted, titleColor: ink },
    legend: { labelColor: ink, titleColor: ink, ...(width < 420 ? { columns: 1 } : {}) },
    title: { color: ink, subtitleColor: muted },
    text: { color: ink },
    rule: { color: ink },
  };
  const config = { ...spec.config };
  for (const [name, part] of Object.entries(colours)) config[name] = { ...config[name], ...part };
  const drawn = { ...structuredClone(spec), config };
  if (drawn.title?.text) {
    const { text, subtitle } = drawn.title;
    drawn.title = { ...drawn.title, text: lines(text, width), subtitle: lines(subtitle, width), limit: width };
  }
  return drawn;
}

/** One tooltip for all figures: names and values as text, placed by the pointer. */
class Tip {
  constructor() {
    this.box = document.createElement("div");
    this.box.className = "figure-tip";
    this.box.hidden = true;
    this.box.setAttribute("aria-hidden", "true");
    document.body.append(this.box);
  }

  /** @param {MouseEvent} event @param {unknown} value */
  show(event, value) {
    this.box.hidden = value === null || value === undefined || value === "";
    if (this.box.hidden) return;
    if (typeof value === "object") {
      const list = document.createElement("dl");
      for (const [name, text] of Object.entries(/** @type {object} */ (value))) {
        const term = document.createElement("dt");
        const detail = document.createElement("dd");
        term.textContent = name;
        detail.textContent = String(text);
        list.append(term, detail);
      }
      this.box.replaceChildren(list);
    } else {
      this.box.textContent = String(value);
    }
    const { width, height } = this.box.getBoundingClientRect();
    this.box.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 8))}px`;
    this.box.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - height - 8))}px`;
  }
}

/** @type {Tip | null} */
let tip = null;

/** Vega's tooltip handler. @type {(handler: unknown, event: MouseEvent, item: unknown, value: unknown) => void} */
function showTip(_handler, event, _item, value) {
  tip ??= new Tip();
  tip.show(event, value);
}

const seen = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      seen.unobserve(entry.target);
      /** @type {StaffloopFigure} */ (entry.target).upgrade();
    }
  },
  { rootMargin: "200px" },
);

class StaffloopFigure extends HTMLElement {
  redraw = () => {
    this.draw().catch((error) => console.warn("figure:", error));
  };

  connectedCallback() {
    seen.observe(this);
  }

  disconnectedCallback() {
    seen.unobserve(this);
    DARK.removeEventListener("change", this.redraw);
    this.chart?.finalize();
  }

  async upgrade() {
    try {
      const [{ embed }, spec] = await Promise.all([import("./vega.js"), send("GET", this.dataset.spec || "")]);
      this.embed = embed;
      this.spec = spec;
      await this.draw();
      DARK.addEventListener("change", this.redraw);
    } catch (error) {
      // The picture that the worker drew stays.
      console.warn("figure:", error);
    }
  }

  async draw() {
    const holder = document.createElement("div");
    holder.className = "picture chart";
    const current = /** @type {HTMLElement} */ (this.querySelector(".picture"));
    // Drawn beside the picture, out of sight but as wide, so that a failure leaves the picture.
    holder.classList.add("pending");
    current.after(holder);
    try {
      const chart = await this.embed(holder, inked(this.spec, holder.clientWidth), {
        mode: "vega-lite",
        ast: true,
        actions: false,
        defaultStyle: false,
        renderer: "svg",
        logLevel: 1, // errors; what it warns of here is a matter of taste
        tooltip: showTip,
      });
      this.chart?.finalize();
      this.chart = chart;
    } catch (error) {
      holder.remove();
      throw error;
    }
    current.remove();
    holder.classList.remove("pending");
    this.name(holder);
  }

  /** Name the drawing for screen readers; the table below holds the numbers. @param {HTMLElement} holder */
  name(holder) {
    const drawing = holder.querySelector("svg");
    drawing?.setAttribute("role", "img");
    drawing?.setAttribute("aria-label", `${this.querySelector("h3")?.textContent}; the table below has its numbers.`);
  }
}

customElements.define("staffloop-figure", StaffloopFigure);
