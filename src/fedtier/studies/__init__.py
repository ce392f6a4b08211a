"""Research on top of the rest: the demo, the paper's table and figures, estimator quality, experiments on the theory."""
