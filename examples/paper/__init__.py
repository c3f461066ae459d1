"""The figures of "Verified Uncertainty Calibration" (Kumar, Liang and Ma, NeurIPS 2019), each by one command."""
