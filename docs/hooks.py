"""The pages that are files of the repository's root."""

import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}


def on_files(files, config):
    """Add the pages of the root, with links to each other as they are in the site."""
    for name, page in PAGES.items():
        text = (ROOT / name).read_text()
        for other, target in PAGES.items():
            text = re.sub(rf"\]\({re.escape(other)}(#[^)]*)?\)", rf"]({target}\1)", text)
        text = re.sub(r"\]\(docs/", "](", text)
        files.append(File.generated(config, page, content=text))
    return files
