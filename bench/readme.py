"""Puts tables into README.md: ``python bench/readme.py compare|peers RESULT.json README.md``.

RESULT.json is what ``python -m gymvec compare --json`` or ``bench/peers/run.py`` wrote.
"""

import json
import sys
from pathlib import Path

END = "<!-- end of table -->"


def paste(path, name, text):
    """Replace what stands between a table's marks by ``text``."""
    begin = f"<!-- table of {name} -->"
    before, rest = path.read_text().split(begin)
    after = rest.split(END, 1)[1]
    path.write_text(f"{before}{begin}\n{text}\n{END}{after}")


def table(kind, figures):
    if kind == "compare":
        from gymvec.cli.report import markdown

        return markdown(figures)
    sys.path.insert(0, str(Path(__file__).parent / "peers"))
    import peers_report

    return peers_report.table(figures)


def main():
    kind, source, target = sys.argv[1], *map(Path, sys.argv[2:])
    paste(target, kind, table(kind, json.loads(source.read_text())))


if __name__ == "__main__":
    main()
