// <staffloop-long-text data-limit>: a textarea that also takes a file, says its size, and refuses what is no text.
import { mark } from "./fields.js";

// Control characters other than tab and line ends: a binary file has them, plain text has not.
const BINARY = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/;

/** @param {number} bytes */
function sizeText(bytes) {
  return bytes < 1024 ? `${bytes} bytes` : `${(bytes / 1024).toFixed(1)} KiB`;
}

class StaffloopLongText extends HTMLElement {
  connectedCallback() {
    this.text = /** @type {HTMLTextAreaElement} */ (this.querySelector("textarea"));
    this.limit = Number(this.dataset.limit) || Infinity;
    const chooser = /** @type {HTMLInputElement} */ (this.querySelector("input[type=file]"));
    this.text.addEventListener("input", () => this.check());
    chooser.addEventListener("change", async () => {
      const [file] = chooser.files || [];
      if (file) await this.take(file);
      // Its text stands in the field now; the file is not sent beside it.
      chooser.value = "";
    });
    if (this.text.value) this.check();
  }

  /** @param {File} file */
  async take(file) {
    if (file.size > this.limit) {
      return this.refuse(`${file.name} has ${sizeText(file.size)}; at most ${sizeText(this.limit)}`);
    }
    try {
      const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
      if (BINARY.test(text)) return this.refuse(`${file.name} holds control characters: it is no plain text`);
      this.text.value = text.replaceAll("\r\n", "\n");
      this.check(file.name);
    } catch {
      this.refuse(`${file.name} is not text in UTF-8`);
    }
    return undefined;
  }

  /** @param {string} [from] the file that it came from */
  check(from) {
    const bytes = new TextEncoder().encode(this.text.value).length;
    const most = Number.isFinite(this.limit) ? ` of at most ${sizeText(this.limit)}` : "";
    this.say(`${from ? `${from}: ` : ""}${sizeText(bytes)}${most}`);
    if (bytes > this.limit) mark(this.text, `has ${sizeText(bytes)}; at most ${sizeText(this.limit)}`);
    else if (BINARY.test(this.text.value)) mark(this.text, "holds control characters: this is no plain text");
    else mark(this.text, "");
  }

  /** What stood in the field stays. @param {string} words */
  refuse(words) {
    mark(this.text, words);
  }

  /** @param {string} words */
  say(words) {
    const place = this.querySelector("[data-size]");
    if (place) place.textContent = words;
  }
}

customElements.define("staffloop-long-text", StaffloopLongText);
