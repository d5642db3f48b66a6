"""The command `etq`, also as `python -m etq`."""

from __future__ import annotations

import os
import signal
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line. An interrupt ends it, also while its modules are imported."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as it is in the background of a shell's script
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from etq.cli import run

    run()


if __name__ == "__main__":
    main()
