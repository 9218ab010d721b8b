"""What preparing text and undoing it costs a score: references that go there and back, scored against themselves.

python benchmarks/roundtrip.py de=europarl-valid.de de=europarl-test.de --out benchmarks/results/roundtrip.json
"""

import argparse
import json
from pathlib import Path

from pag.text.bleu import multi_bleu, sacre_bleu, signatures
from pag.text.moses import moses
from pag.textio import strict_lines


def scores(language: str, lines: list[str]) -> dict[str, float]:
    """BLEU of tokens, as `pag evaluate` tokenises an output again; and sacreBLEU of the plain text."""
    rules = moses(language)
    tokens = [rules.clean(line) for line in lines]
    back = [rules.detokenise(line) for line in tokens]
    return {
        "bleu": round(multi_bleu([rules.clean(line) for line in back], tokens), 2),
        "sacrebleu": round(sacre_bleu(back, lines), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="LANGUAGE=FILE")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    found = {}
    for language, _, name in (text.partition("=") for text in given.files):
        lines = [line for line in strict_lines(Path(name)) if line.strip()]
        found[Path(name).name] = {"lines": len(lines), **scores(language, lines)}
        print(name, found[Path(name).name])
    given.out.write_text(json.dumps({"signatures": signatures(), "files": found}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
