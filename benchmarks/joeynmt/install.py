"""Install JoeyNMT for `pag bench`, in a folder of its own beside this file.

    python benchmarks/joeynmt/install.py                   for the Python that runs this
    python benchmarks/joeynmt/install.py --python 3.12     for another one, on a machine without a network

Nothing is installed into the Python that runs this: `pag bench` adds the folder to the end of its path.
"""

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="{}.{}".format(*sys.version_info), help="version that will import it")
    version = parser.parse_args().python
    folder = HERE / f"site-{version}"
    foreign = ["--python-version", version, "--only-binary", ":all:"]
    command = [
        sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--upgrade",
        "--target", str(folder), "--requirement", str(HERE / "requirements.txt"), *foreign,
    ]  # fmt: skip
    done = subprocess.run(command, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    print(f"JoeyNMT is in {folder}: `pag bench` finds it there, or with --joeynmt {folder}")


if __name__ == "__main__":
    main()
