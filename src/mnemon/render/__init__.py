"""How results are written: names, numbers, tables, SVG."""
