// <staffloop-picture-file data-limit>: takes a picture's file into a hidden field as base64, and says its name and size.
import { mark } from "./fields.js";

/** @param {number} bytes */
function sizeText(bytes) {
  return `${(bytes / 1024).toFixed(1)} KiB`;
}

/** @param {File} file @returns {Promise<string>} */
function base64Of(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^[^,]*,/, ""));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

class StaffloopPictureFile extends HTMLElement {
  connectedCallback() {
    this.limit = Number(this.dataset.limit) || Infinity;
    this.kept = /** @type {HTMLInputElement} */ (this.querySelector("input[type=hidden]"));
    this.chooser = /** @type {HTMLInputElement} */ (this.querySelector("input[type=file]"));
    this.chooser.addEventListener("change", async () => {
      const [file] = this.chooser.files || [];
      if (file) await this.take(file);
    });
    if (this.kept.value) this.say(`A picture of ${sizeText((this.kept.value.length * 3) / 4)} is kept from before.`);
  }

  /** @param {File} file */
  async take(file) {
    if (file.size > this.limit) {
      mark(this.kept, `${file.name} has ${sizeText(file.size)}; at most ${sizeText(this.limit)}`);
    } else {
      this.kept.value = await base64Of(file);
      mark(this.kept, "");
      this.say(`${file.name}: ${sizeText(file.size)} of at most ${sizeText(this.limit)}`);
    }
    // It stands in the hidden field now; the file is not sent beside it.
    this.chooser.value = "";
  }

  /** @param {string} words */
  say(words) {
    const place = this.querySelector("[data-size]");
    if (place) place.textContent = words;
  }
}

customElements.define("staffloop-picture-file", StaffloopPictureFile);
