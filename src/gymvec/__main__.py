"""``python -m gymvec``."""

import sys

from gymvec.cli import main

if __name__ == "__main__":
    sys.exit(main())
