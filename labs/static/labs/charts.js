// Charts in the page's present ink. Vega interprets its expressions (no eval) and writes no <style>: the page's
// Content-Security-Policy stays strict. The libraries are loaded with the first chart.

export const DARK = matchMedia("(prefers-color-scheme: dark)");

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

/**
 * Draw a Vega-Lite spec into a place, as wide as the place is.
 * @param {HTMLElement} holder
 * @param {any} spec
 * @returns {Promise<any>} with `view` and `finalize`
 */
export async function draw(holder, spec) {
  const { embed } = await import("./vega.js");
  return embed(holder, inked(spec, holder.clientWidth), {
    mode: "vega-lite",
    ast: true,
    actions: false,
    defaultStyle: false,
    renderer: "svg",
    logLevel: 1, // errors; what it warns of here is a matter of taste
    tooltip: showTip,
  });
}
