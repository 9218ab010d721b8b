// The view as part of the address, so that a link restores it.

const NAMES = { model: "m", compare: "c", text: "t", document: "d", answer: "a", beam: "b", nbest: "n", chosen: "o", step: "s" };

export function readLink() {
  const given = new URLSearchParams(location.hash.slice(1));
  return Object.fromEntries(Object.entries(NAMES).flatMap(([name, short]) => (given.has(short) ? [[name, given.get(short)]] : [])));
}

export function writeLink(view) {
  const kept = Object.entries(view).filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== 0);
  const given = new URLSearchParams(kept.map(([name, value]) => [NAMES[name], value]));
  history.replaceState(null, "", `#${given}`);
}
