// <staffloop-run data-url data-state>: live progress of a run, then its result and its figures, without a reload.
import { Problem, poll, renew } from "../quiz/api.js";

const ACTIVE = ["queued", "running"];

/** @param {{state: string, progress: {done: number, total: number | null}}} run */
function progressText(run) {
  if (run.state === "queued") return "Waiting for a worker.";
  if (!run.progress.total) return "The worker is starting it.";
  return `Step ${run.progress.done} of ${run.progress.total}.`;
}

class StaffloopRun extends HTMLElement {
  connectedCallback() {
    this.stop = new AbortController();
    this.follow(this.stop.signal).catch((error) => {
      this.say(error instanceof Problem ? error.message : "Something went wrong here. Reload the page.");
    });
  }

  disconnectedCallback() {
    this.stop?.abort();
  }

  /** @param {AbortSignal} signal */
  async follow(signal) {
    const url = this.dataset.url || "";
    let state = this.dataset.state || "";
    let figures = "figuresAwaited" in this.dataset;
    if (ACTIVE.includes(state)) {
      const heard = (/** @type {boolean} */ reachable) => {
        if (!reachable) this.say("The server cannot be reached; trying again …");
      };
      await poll(url, (run) => this.show(run), signal, heard);
      if (signal.aborted) return;
      await renew("run-body");
      const done = this.querySelector("#run-body > p");
      state = this.dataset.state || "";
      this.announce(`The run has ended: ${done?.textContent?.trim() || state}`);
      figures = state === "graded" && !this.querySelector("staffloop-figure");
    }
    if (!figures) return;
    await poll(url, (run) => run.figures_ready, signal);
    if (signal.aborted) return;
    await renew("run-figures");
    this.announce("The figures are drawn.");
  }

  /**
   * @param {any} run a run document
   * @returns {boolean} whether it has ended
   */
  show(run) {
    this.dataset.state = run.state;
    if (!ACTIVE.includes(run.state)) return true;
    this.say(progressText(run));
    const badge = this.querySelector("[data-state-text]");
    if (badge) badge.textContent = run.state === "queued" ? "Queued" : "Running";
    const bar = this.querySelector("progress");
    if (bar && run.progress.total) {
      bar.max = run.progress.total;
      bar.value = run.progress.done;
    }
    // Read out only the change of state, not every step.
    this.announce(run.state === "queued" ? "Waiting for a worker." : "The run is computing.");
    return false;
  }

  /** @param {string} text */
  say(text) {
    const place = this.querySelector("[data-progress-text]");
    if (place) place.textContent = text;
  }

  /** @param {string} text */
  announce(text) {
    const place = this.querySelector("[data-announce]");
    if (place && place.textContent !== text) place.textContent = text;
  }
}

customElements.define("staffloop-run", StaffloopRun);
