// <staffloop-run-form data-url data-run-page data-task-attempt>: submits a run over REST, so that a refusal
// stands beside its field and nothing typed is lost. The inputs' names are JSON pointers into the body.
import { Problem, send } from "../quiz/api.js";

const NO_ID = "00000000-0000-0000-0000-000000000000";

/**
 * An input's value with its JSON type. What is no number stays text, so that the server refuses it by name.
 * @param {HTMLInputElement | HTMLSelectElement} input
 * @returns {unknown} undefined: nothing was entered
 */
function valueOf(input) {
  const type = input.dataset.type;
  if (type === "boolean") return input instanceof HTMLInputElement && input.checked;
  const text = input.value.trim();
  if (text === "") return undefined;
  if (type === "integer" && /^[+-]?\d+$/.test(text) && Number.isSafeInteger(Number(text))) return Number(text);
  if (type === "number" && Number.isFinite(Number(text))) return Number(text);
  return text;
}

class StaffloopRunForm extends HTMLElement {
  connectedCallback() {
    this.form = /** @type {HTMLFormElement} */ (this.querySelector("form"));
    // The server's words stand beside the fields; the browser's bubbles would come before them.
    this.form.noValidate = true;
    this.form.addEventListener("submit", (event) => this.submit(event));
    this.hint = this.querySelector("[data-status]")?.textContent || "";
  }

  inputs() {
    return /** @type {(HTMLInputElement | HTMLSelectElement)[]} */ ([...this.querySelectorAll("[data-type]")]);
  }

  /** @returns {Record<string, any>} */
  body() {
    /** @type {Record<string, any>} */
    const body = { params: {} };
    if (this.dataset.taskAttempt) {
      body.task_attempt = this.dataset.taskAttempt;
      body.prediction = JSON.parse(document.getElementById("locked-prediction")?.textContent || "{}");
    }
    for (const input of this.inputs()) {
      const value = valueOf(input);
      const [, outer, inner] = input.name.split("/");
      if (value === undefined) continue;
      if (inner === undefined) body[outer] = value;
      else body[outer][inner] = value;
    }
    return body;
  }

  /** @param {SubmitEvent} event */
  async submit(event) {
    event.preventDefault();
    const button = /** @type {HTMLButtonElement} */ (this.querySelector("button[type=submit]"));
    if (button.disabled) return;
    button.disabled = true;
    this.complain([]);
    this.say("Submitting …");
    try {
      const run = await send("POST", this.dataset.url || "", this.body());
      location.assign((this.dataset.runPage || "").replace(NO_ID, run.public_id));
    } catch (error) {
      button.disabled = false;
      this.say(this.hint || "");
      if (error instanceof Problem) {
        this.complain(error.errors.length ? error.errors : [{ pointer: "", detail: error.message }]);
      } else {
        this.complain([{ pointer: "", detail: "The server cannot be reached. Nothing was submitted; try again." }]);
      }
    }
  }

  /** @param {string} text */
  say(text) {
    const place = this.querySelector("[data-status]");
    if (place) place.textContent = text;
  }

  /**
   * Show each error beside its field and in the summary; none: take earlier ones away.
   * @param {{pointer: string, detail: string}[]} errors
   */
  complain(errors) {
    for (const input of this.inputs()) {
      const text = errors
        .filter((error) => error.pointer === `#${input.name}`)
        .map((error) => error.detail)
        .join("; ");
      if (text) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
      const place = document.getElementById(`${input.id}-error`);
      if (place) {
        place.textContent = text;
        place.hidden = !text;
      }
    }
    const box = /** @type {HTMLElement} */ (this.querySelector("[data-problems]"));
    box.querySelector("ul")?.replaceChildren(...errors.map((error) => this.line(error)));
    box.hidden = errors.length === 0;
    if (errors.length) box.focus();
  }

  /** @param {{pointer: string, detail: string}} error */
  line(error) {
    const item = document.createElement("li");
    const input = this.inputs().find((one) => `#${one.name}` === error.pointer);
    const label = input?.labels?.[0]?.textContent?.trim();
    if (input && label) {
      const link = document.createElement("a");
      link.href = `#${input.id}`;
      link.textContent = label;
      item.append(link, ": ", error.detail);
    } else {
      const place = error.pointer.replace(/^#\/?/, "");
      item.append(place ? `${place}: ${error.detail}` : error.detail);
    }
    return item;
  }
}

customElements.define("staffloop-run-form", StaffloopRunForm);
