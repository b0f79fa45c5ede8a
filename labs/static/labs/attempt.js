// <staffloop-attempt data-url>: waits until a worker has drawn the instance, then shows it.
import { Problem, poll, renew } from "../quiz/api.js";

class StaffloopAttempt extends HTMLElement {
  connectedCallback() {
    this.stop = new AbortController();
    this.wait(this.stop.signal).catch((error) => {
      this.say(error instanceof Problem ? error.message : "Something went wrong here. Reload the page.");
    });
  }

  disconnectedCallback() {
    this.stop?.abort();
  }

  /** @param {AbortSignal} signal */
  async wait(signal) {
    await poll(
      this.dataset.url || "",
      (attempt) => attempt.state !== "preparing",
      signal,
      (reachable) => {
        if (!reachable) this.say("The server cannot be reached; trying again …");
      },
    );
    if (signal.aborted) return;
    const body = await renew("attempt-body");
    const heading = body?.querySelector("h2");
    if (heading) {
      heading.tabIndex = -1;
      heading.focus({ preventScroll: true });
    }
  }

  /** @param {string} text */
  say(text) {
    const place = this.querySelector("[data-status]");
    if (place) place.textContent = text;
  }
}

customElements.define("staffloop-attempt", StaffloopAttempt);
