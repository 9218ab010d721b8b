// Calls to the server. A refusal becomes an Error with the server's own words.

export class RefusedError extends Error {
  constructor(status, message, retryAfter) {
    super(message);
    Object.assign(this, { status, retryAfter });
  }
}

function headers() {
  const key = sessionStorage.getItem("pag-key");
  return { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) };
}

export function keepKey(key) {
  sessionStorage.setItem("pag-key", key);
}

async function refusal(answer) {
  const told = await answer.json().catch(() => null);
  const wait = answer.headers.get("Retry-After");
  return new RefusedError(answer.status, told?.error?.message ?? `the server answered ${answer.status}`, wait);
}

async function call(path, options) {
  let answer;
  try {
    answer = await fetch(path, { ...options, headers: headers() });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new RefusedError(0, "the server cannot be reached");
  }
  if (!answer.ok) throw await refusal(answer);
  return answer;
}

export async function models() {
  return (await (await call("api/models")).json()).models;
}

// Calls onEvent(name, value) for each event until the stream ends.
export async function stream(asked, onEvent, signal) {
  const answer = await call("api/generate", { method: "POST", body: JSON.stringify({ ...asked, stream: true }), signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  let ended = false;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const parts = (held + value).split("\n\n");
    held = parts.pop();
    for (const part of parts) {
      const [, name, data] = part.match(/^event: (\w+)\ndata: (.*)$/s);
      const told = JSON.parse(data);
      if (name === "error") throw new RefusedError(200, told.error.message);
      ended ||= name === "result";
      onEvent(name, told);
    }
  }
  if (!ended) throw new RefusedError(0, "the connection closed before the answer was whole");
}
