// The REST API as the pages use it: the session's cookie, the CSRF token of the page, problem documents.

/** A refusal: an RFC 9457 problem document, or a reply that is none. */
export class Problem extends Error {
  /**
   * @param {number} status
   * @param {{detail?: string, title?: string, errors?: {pointer: string, detail: string}[]}} document
   */
  constructor(status, document) {
    super(document.detail || document.title || `The server answered ${status}.`);
    this.status = status;
    /** @type {{pointer: string, detail: string}[]} pointers like "#/params/top_k" */
    this.errors = document.errors || [];
  }
}

/** @returns {string} the token that Django put into a form of this page */
function csrfToken() {
  const input = document.querySelector("input[name=csrfmiddlewaretoken]");
  return input instanceof HTMLInputElement ? input.value : "";
}

/** @returns {string} 32 random hex digits; not randomUUID, which a page without https lacks */
function token() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * @param {unknown} body may hold a BigInt: a whole number that a Number would round, and that stringify alone refuses
 * @returns {string} its JSON
 */
function jsonOf(body) {
  const mark = token();
  const marked = JSON.stringify(body, (_, value) => (typeof value === "bigint" ? `${mark}${value}` : value));
  return marked.replace(new RegExp(`"${mark}(-?\\d+)"`, "g"), "$1");
}

/**
 * Send JSON; the parsed reply. Throws Problem where the server refuses, TypeError where it cannot be reached.
 * @param {string} method
 * @param {string} url
 * @param {unknown} [body]
 * @param {Record<string, string>} [extra] headers
 * @returns {Promise<any>}
 */
export async function send(method, url, body, extra = {}) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json", "X-CSRFToken": csrfToken(), ...extra };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const reply = await fetch(url, {
    method,
    headers,
    credentials: "same-origin",
    body: body === undefined ? undefined : jsonOf(body),
  });
  const parsed = await reply.json().catch(() => ({}));
  if (!reply.ok) throw new Problem(reply.status, parsed);
  return parsed;
}

/** Sends a POST so that it is carried out once: what got no reply is sent again under the same Idempotency-Key. */
export class Once {
  /**
   * @param {string} url
   * @param {unknown} body
   * @returns {Promise<any>}
   */
  async post(url, body) {
    const intent = `${url} ${jsonOf(body)}`;
    if (intent !== this.intent) {
      this.intent = intent;
      this.key = token();
    }
    try {
      const reply = await send("POST", url, body, { "Idempotency-Key": this.key || "" });
      this.intent = undefined;
      return reply;
    } catch (error) {
      // A refusal is an answer, and the next try may find another one; 409 also says that the first is under way.
      if (error instanceof Problem && error.status < 500 && error.status !== 409) this.intent = undefined;
      throw error;
    }
  }
}

/** @param {number} ms */
export function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/**
 * Read `url` again and again until `visit` says true. An unchanged resource answers 304 and is not visited.
 * A server that cannot be reached is asked again, ever more slowly; a refusal is thrown.
 * @param {string} url
 * @param {(document: any) => boolean} visit
 * @param {AbortSignal} signal
 * @param {(reachable: boolean) => void} [onReach]
 */
export async function poll(url, visit, signal, onReach = () => {}) {
  let etag = "";
  let failures = 0;
  while (!signal.aborted) {
    try {
      /** @type {Record<string, string>} */
      const headers = { Accept: "application/json" };
      if (etag) headers["If-None-Match"] = etag;
      const reply = await fetch(url, { headers, signal, credentials: "same-origin", cache: "no-store" });
      if (reply.status >= 500) throw new TypeError(`the server answered ${reply.status}`);
      onReach(true);
      failures = 0;
      if (reply.status !== 304) {
        const parsed = await reply.json();
        if (!reply.ok) throw new Problem(reply.status, parsed);
        etag = reply.headers.get("ETag") || "";
        if (visit(parsed)) return;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Problem) throw error;
      failures += 1;
      onReach(false);
    }
    await pause(document.hidden ? 5000 : Math.min(700 * 2 ** failures, 15000));
  }
}

/** @returns {Promise<Document>} this page as it is now on the server */
export async function fetchPage() {
  const reply = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
  if (!reply.ok) throw new Problem(reply.status, {});
  return new DOMParser().parseFromString(await reply.text(), "text/html");
}

/**
 * Put the part `id` of a fetched page where the old one stands; the rest of the page stays.
 * @param {Document} page
 * @param {string} id
 * @returns {HTMLElement | null} the new part
 */
export function swap(page, id) {
  const fresh = page.getElementById(id);
  const old = document.getElementById(id);
  if (!fresh || !old) return null;
  old.replaceWith(document.adoptNode(fresh));
  return document.getElementById(id);
}

/**
 * Fetch this page again and put its part `id` where the old one stands.
 * @param {string} id
 * @returns {Promise<HTMLElement | null>} the new part
 */
export async function renew(id) {
  return swap(await fetchPage(), id);
}
