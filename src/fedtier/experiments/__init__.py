"""From a configuration to numbers on disk: one run, many runs side by side, a search.

tables.py       every key of a configuration               rules.py        keys that may not stand together
toml.py         files as tables, a key declared, checked   config.py       files and settings, checked whole
assemble.py     data, model, method, plan of it            label_counts.py who has how many rows of which label
run.py          advance, evaluate, record, again           run_folder.py   the files of one run
metrics.py      what a model is judged by                  record.py       one line of metrics
comparison.py   methods x settings as cells                outcomes.py     cells run, intervals, paired differences
search.py       a grid at once, on validation rows
"""
