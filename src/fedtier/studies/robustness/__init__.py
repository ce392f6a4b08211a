"""What each aggregation does about clients that attack."""
