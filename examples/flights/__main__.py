"""`python -m examples.flights [--folder .demo]`, from the repository's root."""

from __future__ import annotations

import argparse
from pathlib import Path

from examples.flights import __doc__ as description
from examples.flights.embedded import DemoFolder
from examples.flights.run import run

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m examples.flights", description=description)
    parser.add_argument("--folder", type=Path, default=Path(".demo"), help="everything is written here; default .demo")
    run(DemoFolder(parser.parse_args().folder.resolve()))
