// Charts in the page's present ink. Vega interprets its expressions (no eval) and writes no <style>: the page's
// Content-Security-Policy stays strict. The libraries are loaded with the first chart.

export const DARK = matchMedia("(prefers-color-scheme: dark)");

// Left of an x axis, in CSS pixels: the labels and the title of the y axis.
const AXIS_ROOM = 70;

/** @param {string} name a custom property of the stylesheet */
function token(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** @type {CanvasRenderingContext2D | null} */
let ruler = null;

/**
 * A text broken into lines that fit; Vega itself would cut it off.
 * @param {any} text
 * @param {number} width in CSS pixels
 * @param {string} font as CSS writes it
 */
function lines(text, width, font) {
  if (typeof text?.expr === "string") return { expr: inTwoLines(text.expr, Math.max(16, Math.floor(width / 9))) };
  if (typeof text !== "string") return text;
  ruler ??= document.createElement("canvas").getContext("2d");
  if (!ruler) return text;
  ruler.font = font;
  const found = [];
  for (const word of text.split(" ")) {
    const longer = found.length ? `${found[found.length - 1]} ${word}` : word;
    if (found.length && ruler.measureText(longer).width <= width) found[found.length - 1] = longer;
    else found.push(word);
  }
  return found;
}

/**
 * What an expression says as two lines where it is long: only Vega knows the text, so that it is counted, not measured.
 * @param {string} expr
 * @param {number} most characters of the first line
 */
function inTwoLines(expr, most) {
  const text = `(${expr})`;
  const end = `lastindexof(slice(${text}, 0, ${most}), ' ')`;
  return `length(${text}) <= ${most} ? ${text} : [slice(${text}, 0, ${end}), slice(${text}, ${end} + 1)]`;
}

/**
 * Break the titles of axes that would be cut off, wherever in the spec.
 * @param {any} part of a spec; changed in place
 * @param {{x: number, y: number}} room in CSS pixels
 * @param {string} font
 */
function breakAxisTitles(part, room, font) {
  if (!part || typeof part !== "object") return;
  for (const [name, inner] of Object.entries(part)) {
    if (name === "data" || name === "datasets") continue;
    if ((name === "x" || name === "y") && typeof inner?.title === "string") {
      inner.title = lines(inner.title, room[name], font);
    }
    breakAxisTitles(inner, room, font);
  }
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
    const { fontSize = 14, fontWeight = 600 } = config.title;
    const family = config.font || "sans-serif";
    drawn.title = {
      ...drawn.title,
      text: lines(text, width, `${fontWeight} ${drawn.title.fontSize || fontSize}px ${family}`),
      subtitle: lines(subtitle, width, `${drawn.title.subtitleFontSize || 12}px ${family}`),
      limit: width,
    };
  }
  const room = { x: width - AXIS_ROOM, y: typeof drawn.height === "number" ? drawn.height : 300 };
  breakAxisTitles(drawn, room, `12px ${config.font || "sans-serif"}`);
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
 * Name a drawing for screen readers, which read nothing inside of it: the table beside it has the numbers.
 * @param {HTMLElement} holder
 * @param {string} title
 */
export function nameDrawing(holder, title) {
  const drawing = holder.querySelector("svg");
  drawing?.setAttribute("role", "img");
  drawing?.setAttribute("aria-label", `${title}; the table below has its numbers.`);
  for (const part of drawing?.children || []) part.setAttribute("aria-hidden", "true");
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
