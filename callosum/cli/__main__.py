"""``python -m callosum.cli`` is the command ``callosum``."""

from callosum.cli import main

if __name__ == "__main__":
    main()
