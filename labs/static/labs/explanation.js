// <staffloop-explanation data-url data-check-url>: hands in the explanation and the ticks without a reload.
import { renew, send } from "../quiz/api.js";
import { faultsOf, mark } from "./fields.js";

const PART = "explanation";

class StaffloopExplanation extends HTMLElement {
  connectedCallback() {
    const form = this.querySelector("form");
    if (!form) return;
    form.noValidate = true;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.hand(form, form.dataset.step === "explain");
    });
  }

  /**
   * @param {HTMLFormElement} form
   * @param {boolean} explaining else checking
   */
  async hand(form, explaining) {
    const button = /** @type {HTMLButtonElement} */ (form.querySelector("button[type=submit]"));
    const text = form.querySelector("textarea");
    if (button.disabled) return;
    button.disabled = true;
    try {
      if (explaining) await send("PUT", this.dataset.url || "", { text: text?.value ?? "" });
      else await send("PUT", this.dataset.checkUrl || "", { made: this.ticks() });
      await this.refresh(explaining);
    } catch (error) {
      button.disabled = false;
      const words = faultsOf(error).map((fault) => fault.detail).join("; ");
      if (text) {
        mark(text, words);
        text.focus();
      } else {
        this.say(this, words);
      }
    }
  }

  ticks() {
    return [.../** @type {NodeListOf<HTMLInputElement>} */ (this.querySelectorAll("[name=made]"))].map((one) => one.checked);
  }

  /** Show what stands now, and stay where the reader was. @param {boolean} explained */
  async refresh(explained) {
    const part = await renew(PART);
    if (!part) return;
    if (explained) /** @type {HTMLElement | null} */ (part.querySelector("h2"))?.focus();
    else {
      /** @type {HTMLElement | null} */ (part.querySelector("button[type=submit]"))?.focus();
      this.say(part, "Saved.");
    }
  }

  /** @param {Element} part @param {string} text */
  say(part, text) {
    const place = part.querySelector("[data-status]");
    if (place) place.textContent = text;
  }
}

customElements.define("staffloop-explanation", StaffloopExplanation);
