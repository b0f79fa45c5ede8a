// <staffloop-what-if data-url data-run-page>: choosing a parameter brings its field, taken from the page of the
// second step; the variation is started over REST, so that a refusal stands beside the field.
import { Once, Problem } from "../quiz/api.js";
import { complain, faultsOf, inputsOf, valueOf } from "./fields.js";

const NO_ID = "00000000-0000-0000-0000-000000000000";
const STEP = "what-if-step";

class StaffloopWhatIf extends HTMLElement {
  connectedCallback() {
    this.once = new Once();
    const choose = /** @type {HTMLFormElement} */ (this.querySelector("[data-choose]"));
    const select = /** @type {HTMLSelectElement} */ (choose.querySelector("select"));
    /** @type {HTMLElement} */ (choose.querySelector("button")).hidden = true;
    select.addEventListener("change", () => this.bring(choose.action, select.value));
    this.addEventListener("submit", (event) => this.vary(event));
  }

  /**
   * Put the field of the chosen parameter here.
   * @param {string} page
   * @param {string} parameter
   */
  async bring(page, parameter) {
    const step = /** @type {HTMLElement} */ (this.querySelector(`#${STEP}`));
    this.wanted = parameter;
    if (!parameter) return step.replaceChildren();
    try {
      const reply = await fetch(`${page}?parameter=${encodeURIComponent(parameter)}`, { headers: { Accept: "text/html" } });
      if (!reply.ok) throw new Problem(reply.status, {});
      const fresh = new DOMParser().parseFromString(await reply.text(), "text/html").getElementById(STEP);
      // Another one may have been chosen in the meantime.
      if (fresh && this.wanted === parameter) step.replaceWith(document.adoptNode(fresh));
    } catch {
      step.textContent = "The server cannot be reached; choose again.";
    }
    return undefined;
  }

  /** @param {SubmitEvent} event */
  async vary(event) {
    const form = /** @type {HTMLFormElement} */ (event.target);
    if (!form.matches("[data-vary]")) return;
    event.preventDefault();
    const button = /** @type {HTMLButtonElement} */ (form.querySelector("button[type=submit]"));
    if (button.disabled) return;
    button.disabled = true;
    complain(this, []);
    try {
      const [input] = inputsOf(form);
      const value = valueOf(input) ?? (input.dataset.type === "text" ? "" : null);
      const run = await this.once.post(this.dataset.url || "", { params: { [input.name.split("/")[2]]: value } });
      location.assign((this.dataset.runPage || "").replace(NO_ID, run.public_id));
    } catch (error) {
      button.disabled = false;
      complain(this, faultsOf(error));
    }
  }
}

customElements.define("staffloop-what-if", StaffloopWhatIf);
