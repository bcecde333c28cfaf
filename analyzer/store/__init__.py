"""What is kept: models, the database behind them, and functions that take and return values. Knows nothing of how a report is made."""
