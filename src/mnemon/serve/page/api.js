// Requests with the token, which comes in the fragment of the address: that part is never sent to a server.

const KEPT = "mnemon.token";

/** The server said no, in a sentence. */
export class Refused extends Error {
  constructor(status, sentence, retryAfter) {
    super(sentence);
    this.status = status;
    this.retryAfter = retryAfter; // seconds, or 0
  }
}

/** There was no answer: the server is away. */
export class Away extends Error {}

export const pause = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));

/** Take the token out of the address, so that it is neither seen nor kept in the history. */
export function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given !== null) {
    sessionStorage.setItem(KEPT, given);
    history.replaceState(null, "", location.pathname);
  }
}

export const setToken = (token) => sessionStorage.setItem(KEPT, token);
export const hasToken = () => Boolean(sessionStorage.getItem(KEPT));

export async function ask(path, { method = "GET", body, headers = {}, signal } = {}) {
  let answer;
  try {
    const token = (sessionStorage.getItem(KEPT) ?? "").replace(/[^\x21-\x7e]/g, "");
    answer = await fetch(path, { method, body, signal, headers: { ...headers, Authorization: `Bearer ${token}` } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Away("the server does not answer.");
  }
  if (answer.ok) return answer;
  const problem = await answer.json().catch(() => ({}));
  throw new Refused(answer.status, problem.detail ?? `the server answers ${answer.status}.`, Number(answer.headers.get("Retry-After") ?? 0));
}

const read = async (answer) => {
  try {
    return await answer.json();
  } catch {
    throw new Away("the answer was cut off.");
  }
};

export const get = async (path) => read(await ask(path));

export const post = async (path, value) =>
  read(await ask(path, { method: "POST", body: JSON.stringify(value), headers: { "Content-Type": "application/json" } }));

export const model = (name) => `/v1/models/${encodeURIComponent(name)}`;

/** Images, as base64 of PNG files, in a form. */
export function form(images) {
  const found = new FormData();
  images.forEach((image, i) => {
    const bytes = Uint8Array.from(atob(image), (c) => c.charCodeAt(0));
    found.append("image", new Blob([bytes], { type: "image/png" }), `${i}.png`);
  });
  return found;
}

/** Server-sent events; EventSource cannot send a token. Ends when the stream ends. */
export async function watch(path, signal, tell) {
  const answer = await ask(path, { signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    let part;
    try {
      part = await reader.read();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Away("the stream of events was cut off.");
    }
    if (part.done) return;
    const blocks = (rest + part.value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const fields = Object.fromEntries(block.split("\n").map((line) => line.split(/: ?(.*)/s).slice(0, 2)));
      if (fields.event) tell(fields.event, JSON.parse(fields.data));
    }
  }
}
