"""A table as Markdown, and as LaTeX that needs no package but booktabs."""

from __future__ import annotations

from itertools import groupby

from mnemon.render.tables import Bold, Part, Table

SENTENCE = 60  # signs; a column with a longer text is broken into lines

# What LaTeX writes in its own way.
LATEX = {
    "\\": r"\textbackslash{}",
    "±": r"$\pm$",
    "−": "$-$",
    "×": r"$\times$",
    "✓": r"$\approx$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "▲": r"$\uparrow$",
    "▼": r"$\downarrow$",
    "≈": r"$\simeq$",
    "†": r"$^\dagger$",
    "*": r"$^\ast$",
    "γ": r"$\gamma$",
    "η": r"$\eta$",
    "–": "--",
    "…": r"\ldots",
    "’": "'",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
} | {sign: "\\" + sign for sign in "&%$#_{}"}


def markdown(table: Table) -> str:
    """The grids and the notes under them."""
    grids = [_grid(part) for part in table.parts]
    notes = " ".join(table.notes).replace("*", r"\*")
    return "\n\n".join([*grids, notes] if notes else grids) + "\n"


def _grid(part: Part) -> str:
    heads = []
    for over, columns in groupby(part.columns, lambda column: column.over):
        for place, column in enumerate(columns):
            heads.append(f"{over}, {column.name}" if over and place == 0 else column.name)
    lines = [heads, ["---"] * len(heads)]
    lines += [[f"**{_plain(text)}**" if isinstance(text, Bold) else _plain(text) for text in row] for row in part.rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _plain(text: str) -> str:
    return text.replace("|", r"\|").replace("*", r"\*")


def latex(table: Table, command: str) -> str:
    """One float; grids under each other. `command` made it."""
    body = "\n\n\\medskip\n".join(_tabular(part) for part in table.parts)
    notes = "".join(f" {escape(note)}" for note in table.notes)
    return (
        f"% made by `{command}`; needs \\usepackage{{booktabs}}\n"
        "\\begin{table*}\n\\centering\\small\n"
        f"\\caption{{{escape(table.title)}.{notes}}}\n\\label{{tab:mnemon-{table.name}}}\n"
        f"{body}\n\\end{{table*}}\n"
    )


def _tabular(part: Part) -> str:
    long = [place for place in range(len(part.columns)) if any(len(row[place]) > SENTENCE for row in part.rows)]
    width = max(0.3, 0.9 - 0.13 * (len(part.columns) - len(long)))  # what the others leave, more or less
    shape = "".join(
        f"p{{{width / len(long):.2f}\\linewidth}}"
        if place in long
        else "r"
        if column.name in ("paper", "ours")
        else "l"
        for place, column in enumerate(part.columns)
    )
    lines = [f"\\begin{{tabular}}{{{shape}}}", "\\toprule"]
    groups = [(over, len(list(columns))) for over, columns in groupby(part.columns, lambda column: column.over)]
    if any(over for over, _ in groups):
        lines.append(" & ".join(f"\\multicolumn{{{n}}}{{c}}{{{escape(over)}}}" for over, n in groups) + r" \\")
        place, rules = 1, []
        for over, n in groups:
            rules += [f"\\cmidrule(lr){{{place}-{place + n - 1}}}"] if over else []
            place += n
        lines.append(" ".join(rules))
    lines.append(" & ".join(escape(column.name) for column in part.columns) + r" \\")
    lines.append("\\midrule")
    lines += [" & ".join(_latex_cell(text) for text in row) + r" \\" for row in part.rows]
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"])


def _latex_cell(text: str) -> str:
    return f"\\textbf{{{escape(text)}}}" if isinstance(text, Bold) else escape(text)


def escape(text: str) -> str:
    return "".join(LATEX.get(sign, sign) for sign in text)
