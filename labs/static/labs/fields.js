// Inputs whose names are JSON pointers into a request's body: their values with JSON types, and errors beside them.
import { Problem } from "../quiz/api.js";

/** @typedef {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} Input */
/** @typedef {{pointer: string, detail: string}} Fault */

/**
 * @param {Element} root
 * @returns {Input[]}
 */
export function inputsOf(root) {
  return /** @type {Input[]} */ ([...root.querySelectorAll("[data-type]")]);
}

/**
 * An input's value with its JSON type. What is no number, or no JSON, stays text, so that the server refuses it by name.
 * @param {Input} input
 * @returns {unknown} undefined: nothing was entered
 */
export function valueOf(input) {
  const type = input.dataset.type;
  if (type === "boolean") return input instanceof HTMLInputElement && input.checked;
  if (input.value.trim() === "") return undefined;
  if (type === "text") return input.value;
  const text = input.value.trim();
  if (type === "integer" && /^[+-]?\d{1,30}$/.test(text)) {
    // A seed may have more digits than a Number keeps.
    return Number.isSafeInteger(Number(text)) ? Number(text) : BigInt(text);
  }
  if (type === "number" && Number.isFinite(Number(text))) return Number(text);
  if (type === "array" || type === "object") return parsed(text);
  return text;
}

/** @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/**
 * What was refused about an input: of its value, or of [0][3] inside it.
 * @param {Input} input
 * @param {Fault[]} errors
 */
function said(input, errors) {
  const place = `#${input.name}`;
  const texts = [];
  for (const { pointer, detail } of errors) {
    if (pointer === place) texts.push(detail);
    else if (pointer.startsWith(`${place}/`)) {
      const steps = pointer.slice(place.length + 1).split("/");
      texts.push(`${steps.map((step) => `[${step}]`).join("")}: ${detail}`);
    }
  }
  return texts.join("; ");
}

/**
 * Say it beside an input; an empty text takes an earlier error away.
 * @param {Input} input
 * @param {string} text
 */
export function mark(input, text) {
  const folded = input.closest("details");
  if (text && folded) folded.open = true;
  if (text) input.setAttribute("aria-invalid", "true");
  else input.removeAttribute("aria-invalid");
  const place = document.getElementById(`${input.id}-error`);
  if (place) {
    place.textContent = text;
    place.hidden = !text;
  }
}

/**
 * Show each error beside its field and in the summary; none: take earlier ones away.
 * @param {Element} root
 * @param {Fault[]} errors
 */
export function complain(root, errors) {
  const inputs = inputsOf(root);
  for (const input of inputs) mark(input, said(input, errors));
  const box = /** @type {HTMLElement} */ (root.querySelector("[data-problems]"));
  box.querySelector("ul")?.replaceChildren(...errors.map((error) => line(inputs, error)));
  box.hidden = errors.length === 0;
  if (errors.length) box.focus();
}

/** @param {Input[]} inputs @param {Fault} error */
function line(inputs, error) {
  const item = document.createElement("li");
  const input = inputs.find((one) => said(one, [error]));
  const label = input?.labels?.[0]?.textContent?.trim();
  if (input && label) {
    const link = document.createElement("a");
    link.href = `#${input.id}`;
    link.textContent = label;
    item.append(link, ": ", said(input, [error]));
  } else {
    const place = error.pointer.replace(/^#\/?/, "");
    item.append(place ? `${place}: ${error.detail}` : error.detail);
  }
  return item;
}

/**
 * The faults that a failed request names; one without a place where it names none.
 * @param {unknown} error
 * @returns {Fault[]}
 */
export function faultsOf(error) {
  if (!(error instanceof Problem)) {
    return [{ pointer: "", detail: "The server cannot be reached. Nothing was submitted; try again." }];
  }
  return error.errors.length ? error.errors : [{ pointer: "", detail: error.message }];
}
