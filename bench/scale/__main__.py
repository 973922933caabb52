"""``python -m bench.scale``."""

from __future__ import annotations

import sys

from bench.scale.run import main

sys.exit(main())
