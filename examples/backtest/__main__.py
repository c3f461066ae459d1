"""`python -m examples.backtest` lists the backtests."""

from __future__ import annotations

if __name__ == "__main__":
    print("Each prints its tables and writes them with a figure to .backtest/; --docs rewrites docs/backtest.md:")
    print("  python -m examples.backtest.flights   flights out of New York in 2013, by month")
    print("  python -m examples.backtest.nba       forecasts of NBA games, by season; --data says where they are")
