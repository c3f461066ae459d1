"""Speed and memory, each beside a peer or a physical limit in the same run, as ratios: ``make bench``."""
