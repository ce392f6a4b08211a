"""Clients with models of their own: anything that can be fitted to rows and asked for probabilities.

    fit(rows, guidance)       rows: Rows(inputs [N, ...], labels [N]) of the client; guidance: see `guidance`
    predict_proba(inputs)     [B, C]: the probability of each class; a row of NaN says nothing of that row

contract.py    the two functions, and what they get     scikit.py     scikit-learn, and what has its interface
kept.py        a client's models on disk                torch_net.py  a PyTorch module with any optimiser
learner.py     any of them as a method's learner        jax_net.py    a net of ours, of any shape
words.py       which model a word names                 program.py    a closed program over files, or over HTTP
"""
