"""Print the n-th shell command of the README (its n-th ``sh`` block), so that CI runs what users are told."""

import re
import sys
from pathlib import Path

text = Path(__file__).resolve().parent.parent.joinpath("README.md").read_text(encoding="utf-8")
blocks = re.findall(r"^```sh\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
sys.stdout.write(blocks[int(sys.argv[1]) - 1].strip() + "\n")
