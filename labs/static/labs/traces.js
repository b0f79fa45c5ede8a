// <staffloop-trace-upload data-url data-limit>: sends a file over REST, so that its way can be shown.
// <staffloop-trace-check data-url>: waits until a worker has read a trace, then shows its card anew.
import { poll, renew } from "../quiz/api.js";
import { complain } from "./fields.js";

/** @param {number} bytes */
function sizeText(bytes) {
  return `${(bytes / 2 ** 20).toFixed(1).replace(".0", "")} MiB`;
}

class StaffloopTraceUpload extends HTMLElement {
  connectedCallback() {
    this.form = /** @type {HTMLFormElement} */ (this.querySelector("form"));
    this.form.noValidate = true;
    this.file = /** @type {HTMLInputElement} */ (this.querySelector("input[type=file]"));
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
  }

  submit() {
    const button = /** @type {HTMLButtonElement} */ (this.querySelector("button[type=submit]"));
    if (button.disabled) return;
    const [file] = this.file.files || [];
    const limit = Number(this.dataset.limit);
    if (!file) return this.refuse("Choose a file.");
    if (file.size > limit) return this.refuse(`${file.name} has ${sizeText(file.size)}; at most ${sizeText(limit)}.`);
    this.refuse("");
    button.disabled = true;
    this.send(file).then(
      () => location.assign(location.pathname),
      (text) => {
        button.disabled = false;
        this.show(null);
        this.say("");
        this.refuse(text);
      },
    );
  }

  /**
   * fetch() tells nothing of what is still being sent.
   * @param {File} file
   * @returns {Promise<void>} rejected with a sentence
   */
  send(file) {
    const name = /** @type {HTMLInputElement} */ (this.querySelector("input[name=name]")).value.trim() || file.name;
    const token = /** @type {HTMLInputElement} */ (this.querySelector("input[name=csrfmiddlewaretoken]")).value;
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      request.open("POST", `${this.dataset.url}?name=${encodeURIComponent(name)}`);
      request.setRequestHeader("Content-Type", "application/octet-stream");
      request.setRequestHeader("X-CSRFToken", token);
      request.responseType = "json";
      request.upload.addEventListener("progress", ({ loaded, total }) => {
        this.show(loaded / total);
        this.say(loaded < total ? `${sizeText(loaded)} of ${sizeText(total)} sent` : "Sent; it is being stored.");
      });
      request.addEventListener("load", () => {
        if (request.status < 300) resolve();
        else reject(request.response?.detail || `The server answered ${request.status}.`);
      });
      request.addEventListener("error", () => reject("The server cannot be reached. Nothing was handed in; try again."));
      request.send(file);
    });
  }

  /** @param {number | null} share sent; null: nothing is under way */
  show(share) {
    const place = /** @type {HTMLElement} */ (this.querySelector("[data-progress]"));
    place.hidden = share === null;
    /** @type {HTMLProgressElement} */ (place.querySelector("progress")).value = share || 0;
  }

  /** @param {string} text */
  say(text) {
    const place = this.querySelector("[data-status]");
    if (place) place.textContent = text;
  }

  /** @param {string} text beside the file and in the summary; empty takes an earlier one away */
  refuse(text) {
    const place = /** @type {HTMLElement} */ (this.querySelector("#trace-file-error"));
    place.textContent = text;
    place.hidden = !text;
    if (text) this.file.setAttribute("aria-invalid", "true");
    else this.file.removeAttribute("aria-invalid");
    complain(this, text ? [{ pointer: "", detail: text }] : []);
  }
}

class StaffloopTraceCheck extends HTMLElement {
  connectedCallback() {
    this.stop = new AbortController();
    this.follow(this.stop.signal).catch(() => undefined); // the link beside it looks again
  }

  disconnectedCallback() {
    this.stop?.abort();
  }

  /** @param {AbortSignal} signal */
  async follow(signal) {
    await poll(this.dataset.url || "", (trace) => trace.state !== "checking", signal);
    const card = this.closest("li");
    if (!signal.aborted && card) await renew(card.id);
  }
}

customElements.define("staffloop-trace-upload", StaffloopTraceUpload);
customElements.define("staffloop-trace-check", StaffloopTraceCheck);
