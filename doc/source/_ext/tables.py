# SPDX-License-Identifier: Apache-2.0
"""Tables of the directives: one list of columns gives the headings and the cells."""


def lines(columns, rows, *options):
    """Return a table in reStructuredText.

    A column is a pair of its heading and of what makes a cell: a key of the row, or a function.
    """
    cells = ([key(row) if callable(key) else row[key] for _, key in columns] for row in rows)
    return plain([heading for heading, _ in columns], cells, *options)


def plain(headings, rows, *options):
    """Return a table of rows of cells. Raises `ValueError` for a row of another length."""
    found = [".. csv-table::", "   :header-rows: 1", *(f"   {option}" for option in options), ""]
    for row in (tuple(headings), *map(tuple, rows)):
        if len(row) != len(headings):
            raise ValueError(f"{len(row)} cells below {len(headings)} headings: {row}")
        found.append("   " + ", ".join(map(_quoted, row)))
    return [*found, ""]


def _quoted(cell):
    text = str(cell).replace('"', '""').replace("\n", "\n   ")
    return f'"{text}"'
