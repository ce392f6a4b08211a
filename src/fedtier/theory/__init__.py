"""Constants, bounds, step sizes and complexities: what the theorems promise for a problem. Derivations: docs/theory.md.

constants    L1, mu_h, L_h, L_x, L0, sigma of a problem, each labelled exact, bound or estimate     (2), (26) to (28)
estimates    the same by Lanczos' method and sampling, for problems without a closed form
lipschitz    how fast solutions move with x, for each kind of set                                   (3) to (6)
sphere       smoothing and the two-point estimate                                                  (7) to (11), (15), (16)
local        Algorithm 2's error after H steps, and the H for an error                              (12) to (14)
theorem1     step-size limit, error bounds, rounds and local steps                                  (17) to (23)
theorem2     the conditions of almost sure convergence, decided for our schedules                   (24), (25)
radial       a problem with kinks whose smoothed gradient is known
"""
