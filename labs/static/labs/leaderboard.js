// <staffloop-standing data-url data-awaited>: while a final run is computed, asks for it and then shows the board anew.
import { Problem, poll, renew } from "../quiz/api.js";

class StaffloopStanding extends HTMLElement {
  connectedCallback() {
    if (!this.dataset.awaited) return;
    this.stop = new AbortController();
    this.wait(this.stop.signal).catch((error) => {
      // Withdrawn in another tab: what stands here is what it was.
      if (!(error instanceof Problem)) throw error;
    });
  }

  disconnectedCallback() {
    this.stop?.abort();
  }

  /** @param {AbortSignal} signal */
  async wait(signal) {
    await poll(this.dataset.url || "", (own) => isSettled(own), signal);
    if (signal.aborted) return;
    const name = document.querySelector("#display-name");
    const typed = name instanceof HTMLInputElement && name.value !== name.defaultValue ? name.value : null;
    const board = await renew("leaderboard");
    const field = board?.querySelector("#display-name");
    // What somebody is typing outlives the exchange.
    if (typed !== null && field instanceof HTMLInputElement) field.value = typed;
    // Outside of what was exchanged, or nobody would hear it.
    const news = document.querySelector("[data-leaderboard-news]");
    if (news) news.textContent = board?.querySelector("staffloop-standing")?.textContent || "";
  }
}

/** @param {{final_runs: {state: string}[]}} own */
function isSettled(own) {
  return own.final_runs.length > 0 && own.final_runs.every((run) => run.state !== "waiting");
}

customElements.define("staffloop-standing", StaffloopStanding);
