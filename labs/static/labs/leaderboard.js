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
    // From here on at once: what was typed during the fetch counts too.
    const continueTyping = typingIn(nameField());
    const focused = document.activeElement;
    const board = swap(page, "leaderboard");
    if (focused && !focused.isConnected) likeIn(board, focused)?.focus({ preventScroll: true });
    continueTyping(nameField());
    // Outside of what was exchanged, or nobody would hear it.
    const news = document.querySelector("[data-leaderboard-news]");
    if (news) news.textContent = board?.querySelector("staffloop-standing")?.textContent || "";
  }
}

function nameField() {
  return /** @type {HTMLInputElement | null} */ (document.querySelector("#display-name"));
}

/**
 * What somebody is typing outlives the exchange, and so does the place of the cursor.
 * @param {HTMLInputElement | null} field
 * @returns {(fresh: HTMLInputElement | null) => void} goes on in another field
 */
function typingIn(field) {
  if (!field) return () => undefined;
  const { value, defaultValue, selectionStart, selectionEnd, selectionDirection } = field;
  return (fresh) => {
    if (!fresh) return;
    if (value !== defaultValue) fresh.value = value;
    if (document.activeElement === fresh) {
      fresh.setSelectionRange(selectionStart, selectionEnd, selectionDirection || "none");
    }
  };
}

/**
 * What in the new board is the one that had the focus in the old.
 * @param {HTMLElement | null} board
 * @param {Element} old
 * @returns {HTMLElement | undefined}
 */
function likeIn(board, old) {
  /** @param {Element} one */
  const nameOf = (one) => one.id || one.getAttribute("aria-label") || one.textContent;
  const like = /** @type {NodeListOf<HTMLElement>} */ (board?.querySelectorAll(old.tagName) || []);
  return [...like].find((one) => nameOf(one) === nameOf(old));
}

/** @param {{final_runs: {state: string}[]}} own */
function isSettled(own) {
  return own.final_runs.length > 0 && own.final_runs.every((run) => run.state !== "waiting");
}

customElements.define("staffloop-standing", StaffloopStanding);
