"""``python -m chaos``."""

from chaos.run import main

raise SystemExit(main())
