"""What `import fedtier as ft` offers: data in, a method and a model chosen, results out.

choices.py   methods with their options, models        data.py     ft.federate
train.py     ft.train                                  result.py   what a run has found
compare.py   ft.compare                                words.py    arguments as words of a configuration

Everything here builds a configuration and hands it to `fedtier.experiments`, as the command line does: there is one way to run.
"""
