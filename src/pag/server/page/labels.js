// How tokens are shown: the end symbol as a sign, blanks made visible.

export function label(token) {
  if (token === "<end>") return "⏎";
  return token.replaceAll(" ", "␣") || "∅";
}

// Do the output's tokens make its text by themselves (characters), or with blanks between (words)?
export function joint(output) {
  const said = output.tokens.filter((token) => token !== "<end>");
  return said.join("") === output.text && said.length > 1 ? "" : " ";
}

export const quoted = (token) => `“${label(token)}”`;
