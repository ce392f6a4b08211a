"""Sums that nobody can open: the server learns the sum of the sites' vectors and none of its terms.

Bonawitz, Ivanov, Kreuter, Marcedone, McMahan, Patel, Ramage, Segal, Seth, "Practical Secure Aggregation for
Privacy-Preserving Machine Learning", CCS 2017, https://doi.org/10.1145/3133956.3133982

    y_u = x_u + PRG(b_u) + sum over v > u of PRG(s_uv) - sum over v < u of PRG(s_uv)        modulo 2^32

fixed_point      numbers as whole numbers modulo 2^32, with a range that is refused beyond
derive           keys from secrets: X25519, HKDF, and the stream that masks are made of
shares           Shamir's shares of a secret: any t of n tell it, fewer tell nothing
discrete_noise   the discrete Gaussian, drawn exactly
messages         what crosses, as named arrays
masking          one site's part of a round: deal shares, mask, reveal
unmasking        the server's: gather, and take the masks off a sum
settings         who takes part in a sum, how many must, in which range
driver           the server's rounds over it
"""
