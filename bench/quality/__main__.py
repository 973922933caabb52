"""``python -m bench.quality``."""

from __future__ import annotations

import sys

from bench.quality.run import main

sys.exit(main())
