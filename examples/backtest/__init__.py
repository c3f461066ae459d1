"""The gate replayed over real drift: what it decided on each period, and what the next period then showed."""
