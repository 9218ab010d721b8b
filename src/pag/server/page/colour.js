// A perceptually uniform colour map: lightness in OKLab falls (or, on a dark page, rises) evenly with the value.

function toRgb(lightness, chroma, hue) {
  const a = chroma * Math.cos(hue);
  const b = chroma * Math.sin(hue);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  return linear.map((value) => {
    const kept = Math.min(1, Math.max(0, value));
    return Math.round(255 * (kept <= 0.0031308 ? 12.92 * kept : 1.055 * kept ** (1 / 2.4) - 0.055));
  });
}

// Where each map starts and ends: lightness, chroma at its middle, hues in degrees.
const MAPS = {
  alignment: { light: [0.972, 0.3, 0.12, 240, 268], dark: [0.255, 0.95, 0.1, 268, 195] },
  plan: { light: [0.972, 0.32, 0.14, 305, 292], dark: [0.255, 0.94, 0.11, 292, 320] },
  gate: { light: [0.972, 0.42, 0.09, 165, 172], dark: [0.255, 0.9, 0.09, 172, 155] },
};

function build([from, to, chroma, hueFrom, hueTo]) {
  return Array.from({ length: 256 }, (_, i) => {
    const share = i / 255;
    const hue = ((hueFrom + (hueTo - hueFrom) * share) * Math.PI) / 180;
    const rgb = toRgb(from + (to - from) * share, (from < 0.5 ? 0.018 : 0.006) + chroma * Math.sin(Math.PI * share * 0.66), hue);
    return `rgb(${rgb.join(" ")})`;
  });
}

const built = new Map();

export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

// The colour of a share of 1; `faint` lifts small values so that they show.
export function shade(map, share, { faint = false, dark = isDark() } = {}) {
  const key = `${map}-${dark}`;
  if (!built.has(key)) built.set(key, build(MAPS[map][dark ? "dark" : "light"]));
  const seen = faint ? Math.sqrt(share) : share;
  return built.get(key)[Math.round(255 * Math.min(1, Math.max(0, seen)))];
}
