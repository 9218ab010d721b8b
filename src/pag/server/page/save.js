// Copy as text; download as PNG, SVG or JSON; a link that restores the view.
import { announce, el } from "./dom.js";
import { figure } from "./figure.js";

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = el("textarea", { class: "sr-only" }, text); // pages that are not from localhost or https have no clipboard
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

function download(blob, name) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

async function png(svgText) {
  const picture = new Image();
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgText)}`;
  await picture.decode();
  const scale = Math.min(2, 8000 / Math.max(picture.width, picture.height)); // what browsers can hold
  const canvas = el("canvas", { width: picture.width * scale, height: picture.height * scale });
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

export function saveButtons(pane) {
  const name = (kind) => `pag-${pane.card.name}.${kind}`.replaceAll(/[^\w.-]+/g, "-");
  const drawn = () => figure(pane.output, pane.step, `${pane.card.name}: ${pane.output.text}`);
  const does = {
    "Copy text": async () => copy(pane.output.text),
    "Copy link": async () => copy(location.href),
    PNG: async () => download(await png(drawn()), name("png")),
    SVG: async () => download(new Blob([drawn()], { type: "image/svg+xml" }), name("svg")),
    JSON: async () => download(new Blob([JSON.stringify(pane.answer)], { type: "application/json" }), name("json")),
  };
  const button = ([words, act]) => el("button", {
    type: "button", class: "quiet", onclick: async (event) => {
      await act();
      announce(words.startsWith("Copy") ? `${words.slice(5)} copied` : `${words} downloaded`);
      event.target.classList.add("done");
      setTimeout(() => event.target.classList.remove("done"), 1200);
    },
  }, words);
  const entries = Object.entries(does).filter(([words]) => words !== "Copy link" || !pane.card.stored);
  return el("div", { class: "save", role: "group", "aria-label": "Copy and download" }, entries.map(button));
}
