"""``python -m fuzz``."""

from fuzz.campaign import main

raise SystemExit(main())
