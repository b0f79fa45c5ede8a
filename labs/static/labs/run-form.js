// <staffloop-run-form data-url data-run-page data-task-attempt>: submits a run over REST, so that a refusal
// stands beside its field and nothing typed is lost. The inputs' names are JSON pointers into the body.
import { Once } from "../quiz/api.js";
import { complain, faultsOf, inputsOf, valueOf } from "./fields.js";

const NO_ID = "00000000-0000-0000-0000-000000000000";

class StaffloopRunForm extends HTMLElement {
  connectedCallback() {
    this.form = /** @type {HTMLFormElement} */ (this.querySelector("form"));
    // The server's words stand beside the fields; the browser's bubbles would come before them.
    this.form.noValidate = true;
    this.form.addEventListener("submit", (event) => this.submit(event));
    this.once = new Once();
    this.hint = this.querySelector("[data-status]")?.textContent || "";
  }

  /** @returns {Record<string, any>} */
  body() {
    /** @type {Record<string, any>} */
    const body = { params: {} };
    if (this.dataset.taskAttempt) {
      body.task_attempt = this.dataset.taskAttempt;
      body.prediction = JSON.parse(document.getElementById("locked-prediction")?.textContent || "{}");
    }
    for (const input of inputsOf(this)) {
      const value = valueOf(input);
      const [, outer, inner] = input.name.split("/");
      if (value === undefined) continue;
      if (inner === undefined) body[outer] = value;
      else (body[outer] ??= {})[inner] = value;
    }
    return body;
  }

  /** @param {SubmitEvent} event */
  async submit(event) {
    event.preventDefault();
    const button = /** @type {HTMLButtonElement} */ (this.querySelector("button[type=submit]"));
    if (button.disabled) return;
    button.disabled = true;
    complain(this, []);
    this.say("Submitting …");
    try {
      const run = await this.once.post(this.dataset.url || "", this.body());
      location.assign((this.dataset.runPage || "").replace(NO_ID, run.public_id));
    } catch (error) {
      button.disabled = false;
      this.say(this.hint || "");
      complain(this, faultsOf(error));
    }
  }

  /** @param {string} text */
  say(text) {
    const place = this.querySelector("[data-status]");
    if (place) place.textContent = text;
  }
}

customElements.define("staffloop-run-form", StaffloopRunForm);
