// <staffloop-placement data-scene data-input>: a grid over the JSON of a placement, one layer at a time. Slots stand
// by GPU and node; what each GPU would carry of the observed load, and what is wrong, is said as one types.
import { contiguous, faultsIn, loadsOf } from "./placement-rules.js";

/** @typedef {import("./placement-rules.js").Scene} Scene */

/** @param {number} value */
const count = (value) => Math.round(value).toLocaleString("en-GB");
/** @param {number} value */
const ratio = (value) => value.toFixed(3);

/**
 * @param {string} tag
 * @param {Record<string, string>} attributes
 * @param {(Node | string)[]} children
 * @returns {any}
 */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** A bar that fills as `show` says, in parts of the scale; the line is the mean. */
class Bar {
  constructor() {
    this.element = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    for (const [name, value] of Object.entries({ class: "share", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" })) {
      this.element.setAttribute(name, value);
    }
    this.fill = document.createElementNS(this.element.namespaceURI, "rect");
    this.fill.setAttribute("height", "8");
    this.mean = document.createElementNS(this.element.namespaceURI, "rect");
    this.mean.setAttribute("class", "mean");
    this.mean.setAttribute("width", "0.7");
    this.mean.setAttribute("height", "8");
    this.element.append(this.fill, this.mean);
  }

  /** @param {number} share @param {number} mean both of the scale */
  show(share, mean) {
    this.fill.setAttribute("width", String(Math.min(100, 100 * share)));
    this.mean.setAttribute("x", String(Math.min(99.3, 100 * mean)));
  }
}

class StaffloopPlacement extends HTMLElement {
  connectedCallback() {
    /** @type {Scene} */
    this.scene = JSON.parse(document.getElementById(this.dataset.scene || "")?.textContent || "null");
    this.json = /** @type {HTMLTextAreaElement} */ (document.getElementById(this.dataset.input || ""));
    this.start = contiguous(this.scene);
    this.placement = this.read() || this.start.map((row) => [...row]);
    this.layer = 0;
    this.build();
    this.json.addEventListener("input", () => this.take());
    this.show();
  }

  /** The placement in the JSON; null where it is none of this scene's size. @returns {(number | null)[][] | null} */
  read() {
    try {
      const found = JSON.parse(this.json.value);
      const { layers, slots } = this.scene;
      const fits = found.length === layers && found.every((/** @type {unknown[]} */ row) => row.length === slots);
      return fits ? found.map((/** @type {any[]} */ row) => row.map((one) => (Number.isInteger(one) ? one : null))) : null;
    } catch {
      return null;
    }
  }

  write() {
    this.json.value = `[\n${this.placement.map((row) => `  ${JSON.stringify(row)}`).join(",\n")}\n]`;
  }

  take() {
    const found = this.read();
    if (!found) {
      clearTimeout(this.saying); // what was about to be said is no longer so
      const { layers, slots } = this.scene;
      this.summary.textContent = `The JSON below is not ${layers} lists of ${slots} numbers; the grid shows what stood there before.`;
      return;
    }
    this.placement = found;
    this.fillIn();
    this.show();
  }

  build() {
    const { layers, gpus, nodes } = this.scene;
    this.chooser = make("select", { id: "placement-layer" });
    for (let layer = 0; layer < layers; layer += 1) this.chooser.append(make("option", { value: String(layer) }));
    this.chooser.addEventListener("change", () => {
      this.layer = Number(this.chooser.value);
      this.fillIn();
      this.show();
    });
    const starts = [this.startButton("Contiguous", this.start)];
    if (this.scene.balancer) starts.push(this.startButton("The balancer's answer", this.scene.balancer));
    this.summary = make("p", { role: "status", class: "figure-number" });
    this.faults = make("ul", { class: "error-text" });
    this.experts = make("ul", { class: "experts", "aria-label": "Experts of this layer" });
    /** @type {{card: HTMLElement, load: HTMLElement, bar: Bar, inputs: HTMLInputElement[]}[]} */
    this.gpus = Array.from({ length: gpus }, (_, gpu) => this.gpu(gpu));
    const listed = make("details", {}, make("summary", {}, "Experts of this layer"), this.experts);
    listed.open = matchMedia("(min-width: 40rem)").matches;
    const rows = Array.from({ length: nodes }, (_, node) => this.node(node, gpus / nodes));
    this.append(
      make("div", { class: "card placement-head" }, make("div", { class: "with-unit" }, make("label", { for: "placement-layer" }, "Layer"), this.chooser), make("div", { class: "with-unit" }, make("span", { class: "muted" }, "Fill this layer with:"), ...starts), this.summary, this.faults),
      listed,
      ...rows,
    );
    this.fillIn();
  }

  /**
   * Fills the chosen layer.
   * @param {string} name
   * @param {number[][]} placement
   */
  startButton(name, placement) {
    const button = make("button", { type: "button", class: "button quiet" }, name);
    button.addEventListener("click", () => {
      this.placement[this.layer] = [...placement[this.layer]];
      this.write();
      this.fillIn();
      this.show();
    });
    return button;
  }

  /** @param {number} node @param {number} perNode */
  node(node, perNode) {
    const cards = this.gpus.slice(node * perNode, (node + 1) * perNode).map((one) => one.card);
    const title = this.scene.nodes > 1 ? [make("legend", {}, `Node ${node}`)] : [];
    return make("fieldset", { class: "plain" }, ...title, make("div", { class: "gpus" }, ...cards));
  }

  /** @param {number} gpu */
  gpu(gpu) {
    const perGpu = this.scene.slots / this.scene.gpus;
    const bar = new Bar();
    const load = make("span", { class: "muted figure-number" });
    const inputs = Array.from({ length: perGpu }, (_, place) => this.slot(gpu, gpu * perGpu + place, place));
    const head = make("p", {}, make("strong", {}, `GPU ${gpu}`), " ", load);
    const card = make("div", { class: "card", role: "group", "aria-label": `GPU ${gpu}` }, head, bar.element, make("div", { class: "slots" }, ...inputs));
    return { card, load, bar, inputs };
  }

  /** @param {number} gpu @param {number} slot @param {number} place on the GPU */
  slot(gpu, slot, place) {
    const input = make("input", {
      type: "number",
      inputmode: "numeric",
      min: "0",
      max: String(this.scene.experts - 1),
      step: "1",
      "aria-label": `GPU ${gpu}, slot ${place}: expert`,
    });
    input.addEventListener("input", () => {
      const text = input.value.trim();
      this.placement[this.layer][slot] = /^\d+$/.test(text) ? Number(text) : null;
      this.write();
      this.show();
    });
    return input;
  }

  /** The numbers of the chosen layer into the slots. */
  fillIn() {
    const inputs = this.gpus.flatMap((one) => one.inputs);
    this.placement[this.layer].forEach((expert, slot) => {
      inputs[slot].value = expert === null ? "" : String(expert);
    });
  }

  /** Loads, faults and the list of experts, as the numbers stand now. */
  show() {
    const { scene, layer } = this;
    const row = this.placement[layer];
    const loads = loadsOf(scene, layer, row);
    const total = scene.load[layer].reduce((sum, one) => sum + one, 0);
    const mean = total / scene.gpus;
    // The scale of the contiguous start, so that bars do not jump while one places; longer only where needed.
    const scale = Math.max(...loadsOf(scene, layer, this.start[layer]), ...loads) || 1;
    const busiest = loads.indexOf(Math.max(...loads));
    this.gpus.forEach(({ card, load, bar }, gpu) => {
      load.textContent = `${count(loads[gpu])}${gpu === busiest ? " ▼ busiest" : ""}`;
      card.classList.toggle("busiest", gpu === busiest);
      bar.show(loads[gpu] / scale, mean / scale);
    });
    const faults = faultsIn(scene, layer, row);
    this.markSlots(new Set(faults.flatMap((fault) => (fault.slot === undefined ? [] : [fault.slot]))));
    this.faults.replaceChildren(...faults.map((fault) => make("li", {}, fault.text)));
    this.say(faults.length ? `Layer ${layer}: ${faults.length} to mend.` : `Layer ${layer}: GPU ${busiest} is busiest with ${ratio(loads[busiest] / mean)} × the mean of the observed load.`);
    this.listExperts(row);
    this.nameLayers();
  }

  /** @param {Set<number>} wrong slots */
  markSlots(wrong) {
    this.gpus
      .flatMap((one) => one.inputs)
      .forEach((input, slot) => {
        if (wrong.has(slot)) input.setAttribute("aria-invalid", "true");
        else input.removeAttribute("aria-invalid");
      });
  }

  /** @param {(number | null)[]} row */
  listExperts(row) {
    const { experts, load, groups } = this.scene;
    const items = Array.from({ length: experts }, (_, expert) => {
      const copies = row.filter((one) => one === expert).length;
      const group = groups > 1 ? `, group ${Math.floor((expert * groups) / experts)}` : "";
      const held = copies === 0 ? "no slot" : copies === 1 ? "1 slot" : `${copies} slots, ${count(load[this.layer][expert] / copies)} each`;
      return make("li", copies ? {} : { class: "missing" }, make("strong", {}, `Expert ${expert}`), `${group}: ${count(load[this.layer][expert])}; ${held}`);
    });
    this.experts.replaceChildren(...items);
  }

  /** Every layer's state in the chooser, so that none is forgotten. */
  nameLayers() {
    this.placement.forEach((row, layer) => {
      const loads = loadsOf(this.scene, layer, row);
      const mean = this.scene.load[layer].reduce((sum, one) => sum + one, 0) / this.scene.gpus;
      const faults = faultsIn(this.scene, layer, row).length;
      this.chooser.options[layer].textContent = `${layer}: ${faults ? `${faults} to mend` : ratio(Math.max(...loads) / mean)}`;
    });
  }

  /** After a pause in the typing, so that a screen reader reads the last state only. @param {string} text */
  say(text) {
    clearTimeout(this.saying);
    this.saying = setTimeout(() => {
      this.summary.textContent = text;
    }, 300);
  }
}

customElements.define("staffloop-placement", StaffloopPlacement);
