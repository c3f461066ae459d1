"""``python -m mlflow_calib.cli``."""

from __future__ import annotations

import sys

from mlflow_calib.cli import main

if __name__ == "__main__":
    sys.exit(main())
