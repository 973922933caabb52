"""``python -m model``."""

from model.run import main

raise SystemExit(main())
