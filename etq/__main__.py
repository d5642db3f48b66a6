"""The command `etq`, also as `python -m etq`."""

from __future__ import annotations

import os
import signal
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line. An interrupt ends it, even while its modules are being imported."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # shells ignore it for a script's background jobs
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from etq.cli import run

    run()


if __name__ == "__main__":
    main()
