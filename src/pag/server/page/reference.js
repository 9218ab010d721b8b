// The API's own description, openapi.json, as a page that needs no network.
import { el, replace } from "./dom.js";
import { themeButton } from "./theme.js";

const EXAMPLES = {
  "/api/generate": { text: "…", beam: 5, n_best: 3, include: ["alignment", "plan", "switch"] },
  "/api/score": { text: "…", output: "…" },
};

const name = (reference) => reference.split("/").pop();

function kind(schema) {
  if (schema.$ref) return name(schema.$ref);
  if (schema.anyOf) return schema.anyOf.filter((part) => part.type !== "null").map(kind).join(" or ");
  if (schema.type === "array") return `list of ${kind(schema.items ?? {})}`;
  return schema.enum ? schema.enum.join(", ") : schema.const ?? schema.type ?? "anything";
}

function fields(schemas, reference) {
  const schema = schemas[name(reference)];
  const wanted = new Set(schema.required ?? []);
  return el("div", { class: "table-scroll" }, el("table", {},
    el("thead", {}, el("tr", {}, ["Field", "Kind", "Meaning"].map((title) => el("th", { scope: "col" }, title)))),
    el("tbody", {}, Object.entries(schema.properties).map(([field, about]) => el("tr", {},
      el("th", { scope: "row" }, el("code", {}, field), wanted.has(field) ? " *" : ""),
      el("td", {}, kind(about)), el("td", {}, about.description ?? ""))))));
}

function command(path, method) {
  const url = new URL(path.slice(1), location.href.replace(/[^/]*$/, ""));
  if (method === "get") return `curl ${url}`;
  return `curl ${url} -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(EXAMPLES[path])}'`;
}

function endpoint(schemas, path, method, about) {
  const body = about.requestBody?.content["application/json"].schema.$ref;
  const answer = about.responses["200"].content?.["application/json"]?.schema.$ref;
  const errors = Object.entries(about.responses).filter(([status]) => status !== "200");
  return el("section", { class: "endpoint" },
    el("h2", {}, el("code", {}, `${method.toUpperCase()} ${path}`)), el("p", {}, about.description ?? ""),
    el("pre", {}, command(path, method)),
    body && [el("h3", {}, "Request"), fields(schemas, body)].flat(),
    answer && [el("h3", {}, "Answer"), fields(schemas, answer)].flat(),
    errors.length && el("p", { class: "note" }, `Errors: ${errors.map(([status, { description }]) => `${status} (${description})`).join(", ")}`));
}

document.getElementById("theme").replaceWith(themeButton());
const api = await (await fetch("openapi.json")).json();
const sections = Object.entries(api.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, about]) => endpoint(api.components.schemas, path, method, about)));
replace(document.getElementById("main"), el("div", { class: "card" }, el("p", {}, api.info.description), ...sections));
