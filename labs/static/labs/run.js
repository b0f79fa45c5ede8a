// <staffloop-run data-url data-tickets data-state>: live progress of a run, then its result and its figures, without
// a reload. It hears the run's event stream; where there is none, it polls.
import { Problem, poll, renew, send } from "../quiz/api.js";
import { hear } from "./stream.js";

const ACTIVE = ["queued", "running"];
// The stream does not tell a run's place in the queue.
const ASK_PLACE_MS = 3000;

/** @param {number} seconds */
function durationText(seconds) {
  if (seconds < 1) return "a moment";
  return seconds < 90 ? `about ${Math.round(seconds)} s` : `about ${Math.round(seconds / 60)} min`;
}

/** @param {{position: number, expected_wait_s: number | null, problem: string | null}} queue */
function queueText({ position, expected_wait_s, problem }) {
  const place =
    position === 0 ? "Yours is the next run" : position === 1 ? "1 run before yours" : `${position} runs before yours`;
  if (expected_wait_s === null) return `${place}. ${problem || ""}`;
  return `${place}; ${durationText(expected_wait_s)}.`;
}

class StaffloopRun extends HTMLElement {
  connectedCallback() {
    this.stop = new AbortController();
    /** What is known of the run; events add to it. @type {any} */
    this.run = { state: this.dataset.state || "", progress: {}, queue: null, figures_ready: false };
    this.follow(this.stop.signal).catch((error) => {
      this.say(error instanceof Problem ? error.message : "Something went wrong here. Reload the page.");
    });
  }

  disconnectedCallback() {
    this.stop?.abort();
    clearInterval(this.asking);
  }

  /** @param {AbortSignal} signal */
  async follow(signal) {
    let figures = "figuresAwaited" in this.dataset;
    if (ACTIVE.includes(this.run.state)) {
      await this.until((run) => this.show(run), signal);
      if (signal.aborted) return;
      await renew("run-body");
      const done = this.querySelector("#run-body > p");
      this.announce(`The run has ended: ${done?.textContent?.trim() || this.run.state}`);
      figures = this.run.state === "graded" && !this.querySelector("staffloop-figure");
    }
    if (!figures) return;
    await this.until((run) => run.figures_ready, signal);
    if (signal.aborted) return;
    await renew("run-figures");
    this.announce("The figures are drawn.");
  }

  /**
   * @param {(run: any) => boolean} visit
   * @param {AbortSignal} signal
   */
  async until(visit, signal) {
    const told = await hear(this.dataset.tickets || "", (name, data) => visit(this.heard(name, data)), signal);
    if (told || signal.aborted) return;
    await poll(this.dataset.url || "", (run) => visit((this.run = run)), signal, (reachable) => {
      if (!reachable) this.say("The server cannot be reached; trying again …");
    });
  }

  /**
   * @param {string} name of an event
   * @param {any} data
   */
  heard(name, data) {
    if (name === "state") this.run = { ...this.run, state: data.state, queue: null, progress: {} };
    if (name === "progress") this.run.progress = data;
    if (name === "figures-ready") this.run.figures_ready = true;
    return this.run;
  }

  /**
   * @param {any} run a run document
   * @returns {boolean} whether it has ended
   */
  show(run) {
    const { state, queue, progress } = run;
    this.dataset.state = state;
    this.askPlace(state === "queued" && !queue);
    if (!ACTIVE.includes(state)) return true;
    if (queue) this.say(queueText(queue));
    if (state === "running") {
      this.say(progress.total ? `Step ${progress.done} of ${progress.total}.` : "The worker is starting it.");
    }
    const badge = this.querySelector("[data-state-text]");
    if (badge) badge.textContent = state === "queued" ? "Queued" : "Running";
    const bar = this.querySelector("progress");
    if (bar && progress.total) {
      bar.max = progress.total;
      bar.value = progress.done;
    }
    // Read out only the change of state, not every step.
    this.announce(state === "queued" ? "Waiting for a worker." : "The run is computing.");
    return false;
  }

  /** Ask now and then for the place in the queue, or no more. @param {boolean} unknown */
  askPlace(unknown) {
    if (unknown === Boolean(this.asking)) return;
    clearInterval(this.asking);
    this.asking = undefined;
    if (!unknown) return;
    this.asking = setInterval(() => {
      send("GET", this.dataset.url || "").then(
        ({ queue }) => this.asking && queue && this.say(queueText(queue)),
        () => undefined, // the stream says when the server is gone
      );
    }, ASK_PLACE_MS);
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
