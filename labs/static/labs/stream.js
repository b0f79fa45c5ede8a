// A run's events as they happen (server-sent events). A ticket opens one stream; each reconnection takes a new one.
import { pause, send } from "../quiz/api.js";

const EVENTS = ["state", "progress", "result-ready", "figures-ready"];
// So many streams in a row that told nothing, and the caller polls instead.
const PATIENCE = 2;

/**
 * Hear a run's events until `visit` says true.
 * @param {string} ticketsUrl
 * @param {(name: string, data: any) => boolean} visit
 * @param {AbortSignal} signal
 * @returns {Promise<boolean>} false: this server does not stream, or not now
 */
export async function hear(ticketsUrl, visit, signal) {
  let last = "";
  let silent = 0;
  while (silent < PATIENCE && !signal.aborted) {
    // A page in the background holds no connection; a browser opens few to one site.
    if (document.hidden) await shown(signal);
    let heard = false;
    const enough = await open(ticketsUrl, last)
      .then((source) =>
        listen(source, signal, (event) => {
          heard = true;
          last = event.lastEventId;
          return visit(event.type, JSON.parse(event.data));
        }),
      )
      .catch(() => false);
    if (enough) return true;
    if (!document.hidden) silent = heard ? 0 : silent + 1;
    await pause(500);
  }
  return false;
}

/** @param {string} ticketsUrl @param {string} last id of the event heard last */
async function open(ticketsUrl, last) {
  const { events_url } = await send("POST", ticketsUrl);
  const { pathname, search } = new URL(events_url, location.href);
  return new EventSource(`${pathname}${search}${last ? `&last_event_id=${encodeURIComponent(last)}` : ""}`);
}

/**
 * @param {EventSource} source
 * @param {AbortSignal} signal
 * @param {(event: MessageEvent) => boolean} visit
 * @returns {Promise<boolean>} whether `visit` had enough; false: the stream ended before
 */
function listen(source, signal, visit) {
  return new Promise((resolve, reject) => {
    const leave = new AbortController();
    /** @param {boolean} enough */
    const end = (enough) => {
      leave.abort();
      // Its own reconnection would show the used ticket again.
      source.close();
      resolve(enough);
    };
    const { signal: left } = leave;
    for (const name of EVENTS) {
      source.addEventListener(
        name,
        (event) => {
          try {
            if (visit(/** @type {MessageEvent} */ (event))) end(true);
          } catch (error) {
            end(false);
            reject(error);
          }
        },
        { signal: left },
      );
    }
    source.addEventListener("error", () => end(false), { signal: left });
    signal.addEventListener("abort", () => end(false), { signal: left });
    document.addEventListener("visibilitychange", () => document.hidden && end(false), { signal: left });
  });
}

/** Until the page can be seen. @param {AbortSignal} signal */
function shown(signal) {
  return new Promise((resolve) => {
    const leave = new AbortController();
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      leave.abort();
      resolve(undefined);
    };
    document.addEventListener("visibilitychange", look, { signal: leave.signal });
    signal.addEventListener("abort", look, { signal: leave.signal });
    look();
  });
}
