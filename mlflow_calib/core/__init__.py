"""The mathematics, on numpy and scipy alone: scaling, binning, calibrator, estimates, bounds, verdict."""
