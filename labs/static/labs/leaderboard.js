// <staffloop-standing data-url data-awaited>: while a final run is computed, asks for it and then shows the board anew.
import { Problem, fetchPage, poll, swap } from "../quiz/api.js";

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
    const page = await fetchPage();
    if (signal.aborted) return;
    // From here to the end at once, so that what was typed during the fetch counts too.
    const name = document.querySelector("#display-name");
    const held = document.activeElement;
    const board = swap(page, "leaderboard");
    const field = board?.querySelector("#display-name");
    const next = [...(board?.querySelectorAll("a, button, input, [tabindex]") || [])].find((one) => isLike(one, held));
    if (next instanceof HTMLElement) next.focus({ preventScroll: true });
    if (name instanceof HTMLInputElement && field instanceof HTMLInputElement) continueTyping(name, field);
    // Outside of what was exchanged, or nobody would hear it.
    const news = document.querySelector("[data-leaderboard-news]");
    if (news) news.textContent = board?.querySelector("staffloop-standing")?.textContent || "";
  }
}

/**
 * Whether an element of the new board is what this one was in the old.
 * @param {Element} one
 * @param {Element | null} other
 */
function isLike(one, other) {
  /** @param {Element} element */
  const nameOf = (element) => element.id || element.getAttribute("aria-label") || element.textContent;
  return one.tagName === other?.tagName && nameOf(one) === nameOf(other);
}

/**
 * What somebody is typing outlives the exchange, and so does the place of the cursor.
 * @param {HTMLInputElement} old
 * @param {HTMLInputElement} fresh
 */
function continueTyping(old, fresh) {
  if (old.value !== old.defaultValue) fresh.value = old.value;
  if (document.activeElement === fresh) {
    fresh.setSelectionRange(old.selectionStart, old.selectionEnd, old.selectionDirection || "none");
  }
}

/** @param {{final_runs: {state: string}[]}} own */
function isSettled(own) {
  return own.final_runs.length > 0 && own.final_runs.every((run) => run.state !== "waiting");
}

customElements.define("staffloop-standing", StaffloopStanding);
