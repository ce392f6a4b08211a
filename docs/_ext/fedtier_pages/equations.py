"""The equations of a method's docstring, which are written in plain characters, as LaTeX.

    y_i <- y_i - tilde_gamma_t grad f1(y_i, zeta_t)     from y_i = x, H_i times

Names of the vocabulary become symbols, other words stay words. Two or more spaces separate a formula from a remark.
"""

from __future__ import annotations

import re

GREEK = ("alpha", "beta", "gamma", "delta", "epsilon", "eta", "lambda", "mu", "rho", "sigma", "tau", "theta", "xi", "zeta")
SYMBOLS = {
    "tilde_gamma": r"\tilde\gamma", "grad": r"\nabla ", "sum": r"\sum", "inf": r"\infty", "sqrt": r"\sqrt", "f1": "f_1",
    "f2": "f_2", "argmin": r"\operatorname{argmin}", "min": r"\min", "max": r"\max", "log": r"\log", "exp": r"\exp",
} | {name: rf"\{name} " for name in GREEK}  # fmt: skip
MARKS = {"<-": r"\leftarrow ", "->": r"\to ", "<=": r"\le ", ">=": r"\ge ", "±": r"\pm ", "...": r"\dots ", "%": r"\%"}
PART = re.compile(
    r"(?P<word>[^\W\d_](?:[^\W_]|_(?!\{))*(?:_\{[^}]*\})?)(?P<over>[+±-](?=[\s,;:)]|$))?"  # y_i, x_{r+1}, y+
    r"|(?P<mark><-|->|<=|>=|±|\.\.\.|%)"
    r"|(?P<other>[^\s])|(?P<space>\s+)"
)


def lines(docstring: str) -> list[str]:
    """The equations in a module's docstring: its first indented block."""
    block: list[str] = []
    for line in docstring.splitlines():
        if line.startswith("    ") and line.strip():
            block.append(line.strip())
        elif block and line.strip():
            break
    return block


def latex(line: str) -> list[str]:
    """One line of plain characters as formulas and remarks in LaTeX, in their order."""
    tight = re.sub(r"\s*(<-|(?<![<>])=)\s*", r" \1 ", line.strip())
    return [_formula(chunk) for chunk in re.split(r";?\s{2,}", tight) if chunk]


def _formula(text: str) -> str:
    out, words = [], []

    def flush() -> None:
        if words:
            out.append(rf"\text{{ {' '.join(words)} }}")
            words.clear()

    for part in PART.finditer(text):
        if part["space"]:
            continue
        symbol = _symbol(part["word"]) if part["word"] else None
        if part["word"] and symbol is None:
            words.append(part["word"].replace("_", r"\_"))
            continue
        flush()
        if symbol is not None:
            out.append(symbol + (rf"^{{{MARKS.get(part['over'], part['over']).strip()}}}" if part["over"] else ""))
        else:
            out.append(MARKS.get(part["mark"] or "", part["mark"] or part["other"]))
    flush()
    return " ".join(out)


def _symbol(word: str) -> str | None:
    """The LaTeX of a name, or None for a word of the language."""
    for base in sorted(SYMBOLS, key=len, reverse=True):
        if word == base:
            return SYMBOLS[base]
        if word.startswith(f"{base}_"):
            return f"{SYMBOLS[base].strip()}_{{{_index(word[len(base) + 1 :])}}}"
    letter = re.fullmatch(r"([A-Za-z])(?:_(.+))?", word)
    if letter is None or word in ("a", "A", "I"):
        return None
    return letter[1] + (f"_{{{_index(letter[2])}}}" if letter[2] else "")


def _index(text: str) -> str:
    return text.strip("{}").replace("_", ",")
