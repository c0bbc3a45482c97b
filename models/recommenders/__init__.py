"""Models that recommend: tables of embeddings, and a network behind them that is small beside."""
