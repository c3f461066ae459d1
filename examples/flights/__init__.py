"""The flights out of New York in 2013: a real model drifts and is recalibrated month by month by the shipped DAG."""
