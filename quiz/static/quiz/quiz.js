// <staffloop-quiz data-url>: saves every answer over REST as it is given; the form itself submits.
import { Problem, pause, send } from "./api.js";

/** One question of the form and what is known of it on the server. */
class Question {
  /** @param {HTMLFieldSetElement} field */
  constructor(field) {
    this.field = field;
    this.position = field.dataset.position || "";
    this.hidden = /** @type {HTMLInputElement} */ (field.querySelector(`[name="sequence-${this.position}"]`));
    this.complaint = /** @type {HTMLElement} */ (field.querySelector("[data-error]"));
    /** Grows with every change: a write whose reply was lost may have been stored under its number. */
    this.sequence = Number(this.hidden.value);
    this.dirty = false;
  }

  /** @param {string} name @returns {string} the checked value, or "" */
  checked(name) {
    const input = this.field.querySelector(`[name="${name}-${this.position}"]:checked`);
    return input instanceof HTMLInputElement ? input.value : "";
  }

  /** Whether an input was changed since the page came, be it before this module ran. */
  get touched() {
    const changed = (/** @type {any} */ input) => input.checked !== input.defaultChecked;
    return [...this.field.querySelectorAll("input[type=radio]")].some(changed);
  }

  get answered() {
    return this.checked("choice") !== "";
  }

  body() {
    const confidence = this.checked("confidence");
    return {
      choice: this.checked("choice"),
      confidence: confidence === "" ? null : Number(confidence),
      sequence: this.sequence,
    };
  }

  /** @param {{choice: string, confidence: number | null, sequence: number}} stored */
  show(stored) {
    const values = { choice: stored.choice, confidence: String(stored.confidence ?? "") };
    for (const [name, value] of Object.entries(values)) {
      for (const input of this.field.querySelectorAll(`[name="${name}-${this.position}"]`)) {
        if (input instanceof HTMLInputElement) input.checked = input.value === value;
      }
    }
    this.acknowledge(stored.sequence);
  }

  /** @param {number} sequence the number that the server has stored */
  acknowledge(sequence) {
    this.sequence = Math.max(this.sequence, sequence);
    this.hidden.value = String(sequence);
  }

  complain(text = "") {
    this.complaint.textContent = text;
    this.complaint.hidden = text === "";
  }
}

class StaffloopQuiz extends HTMLElement {
  url = "";
  questions = /** @type {Question[]} */ ([]);

  connectedCallback() {
    this.url = this.dataset.url || "";
    this.form = /** @type {HTMLFormElement} */ (this.querySelector("form"));
    this.questions = [...this.querySelectorAll("fieldset[data-position]")].map(
      (field) => new Question(/** @type {HTMLFieldSetElement} */ (field)),
    );
    this.working = Promise.resolve();
    this.sent = false;
    this.form.querySelector("[data-plain]")?.remove();
    this.form.addEventListener("change", (event) => this.changed(event));
    this.form.addEventListener("submit", (event) => this.submitting(event));
    this.querySelector("[data-go-back]")?.addEventListener("click", () => this.goBack());
    this.count();
    for (const question of this.questions) if (question.touched) this.keep(question);
  }

  /** @param {Event} event */
  changed(event) {
    const field = /** @type {HTMLElement} */ (event.target).closest("fieldset[data-position]");
    const question = this.questions.find((one) => one.field === field);
    if (question) this.keep(question);
  }

  /** @param {Question} question */
  keep(question) {
    question.dirty = true;
    question.sequence += 1;
    question.complain();
    this.count();
    this.working = this.working.then(() => this.save(question));
  }

  count() {
    const answered = this.questions.filter((question) => question.answered).length;
    this.say("[data-answered]", `${answered} / ${this.questions.length} answered`);
  }

  /** @param {string} selector @param {string} text */
  say(selector, text) {
    const place = this.querySelector(selector);
    if (place && place.textContent !== text) place.textContent = text;
  }

  /**
   * Store a question's newest answer; try again while the server cannot be reached.
   * @param {Question} question
   */
  async save(question) {
    let failures = 0;
    if (question.dirty) this.say("[data-saved]", "Saving …");
    while (question.dirty) {
      try {
        const stored = await send("PUT", `${this.url}responses/${question.position}/`, question.body());
        question.acknowledge(stored.sequence);
        question.dirty = question.sequence !== stored.sequence;
        if (!this.questions.some((one) => one.dirty)) this.say("[data-saved]", "All answers saved");
      } catch (error) {
        if (error instanceof Problem && error.status < 500) {
          question.dirty = false;
          await this.refused(question, error);
          return;
        }
        failures += 1;
        this.say("[data-saved]", "The server cannot be reached; trying again …");
        await pause(Math.min(1000 * 2 ** failures, 10000));
      }
    }
  }

  /**
   * The stored answer stands. Show it, and say so.
   * @param {Question} question
   * @param {Problem} problem
   */
  async refused(question, problem) {
    this.say("[data-saved]", "");
    question.complain(problem.message);
    if (problem.status !== 409) return;
    const attempt = await send("GET", this.url);
    if (attempt.state !== "open") {
      location.reload();
      return;
    }
    const stored = attempt.questions.find(
      (/** @type {{position: number}} */ one) => String(one.position) === question.position,
    );
    question.show(stored.response);
    question.complain("Answered in another window since this page was loaded. Shown is the stored answer.");
    this.count();
  }

  /** @param {SubmitEvent} event */
  async submitting(event) {
    if (this.sent) return;
    event.preventDefault();
    const button = /** @type {HTMLButtonElement} */ (event.submitter);
    const left = this.questions.filter((question) => !question.answered).map((question) => question.position);
    if (button.value === "submit" && left.length) return this.ask(left);
    await this.working;
    // A form ignores requestSubmit while its submit event is being fired, microtasks included.
    await pause(0);
    this.querySelector("dialog")?.close();
    const spoiled = this.questions.find((question) => !question.complaint.hidden);
    if (spoiled) {
      spoiled.field.querySelector("input")?.focus();
      return;
    }
    this.sent = true;
    this.form?.requestSubmit(button);
  }

  /** @param {string[]} positions questions without an answer */
  ask(positions) {
    const one = positions.length === 1;
    this.say(
      "[data-dialog-text]",
      `${one ? "Question" : "Questions"} ${positions.join(", ")} ${one ? "has" : "have"} no answer yet; ` +
        "what has no answer earns nothing.",
    );
    this.first = positions[0];
    this.querySelector("dialog")?.showModal();
  }

  goBack() {
    this.querySelector("dialog")?.close();
    this.questions.find((one) => one.position === this.first)?.field.querySelector("input")?.focus();
  }
}

customElements.define("staffloop-quiz", StaffloopQuiz);
