"""All methods of the registry beside each other, under equal rows, equal local gradients and equal searches."""
