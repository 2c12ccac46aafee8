"""``python -m gymvec``."""

import sys

from gymvec.cli.main import main

# Workers that are spawned import this file too.
if __name__ == "__main__":
    sys.exit(main())
