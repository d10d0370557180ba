"""peers_plot.py -- the ratios of the grid on normal data as an SVG, one panel an op and dtype; of two runs the lesser ratio."""

import math

import peers_table as table
from peers_cells import OP_NAMES, label, op_of_set

COLOURS = {"bar": "#c0392b", "cudnn": "#1f77b4", "fa2": "#2ca02c", "memeff": "#8c8c8c", "flex": "#9467bd", "fa3": "#ff7f0e",
           "fa4": "#17becf"}
LEFT, RIGHT, PANEL, GAP, TOP, BOTTOM = 56, 16, 230, 18, 64, 40
STEP = 15  # pixels from cell to cell
TICKS = (0.5, 0.7, 0.85, 1, 1.2, 1.5, 2, 3, 4, 6)


def escape(text):
    return str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def group_of(c):
    return c["d"], c["causal"]


def series_of(points):
    """{name: ratio of each cell}; `points`: [(cell, its rows)]."""
    series = {"bar": [table.least(of, lambda r: table.bar(r)[1]) for _, of in points]}
    for peer in COLOURS:
        values = [table.least(of, lambda r, peer=peer: table.ratio(r, peer)) for _, of in points]
        if peer != "bar" and any(values):
            series[peer] = values
    return series


def panel(points, title, top):
    """One op and dtype: a mark for each cell and peer over a logarithmic axis of ratios."""
    cells, series = [c for c, _ in points], series_of(points)
    groups = list(dict.fromkeys(group_of(c) for c in cells))
    values = [v for vs in series.values() for v in vs if v]
    low, high = min([0.8] + values) * 0.95, max([1.3] + values) * 1.05

    def y(v):
        return top + PANEL * (1 - math.log(v / low) / math.log(high / low))
    def x(i):
        return LEFT + STEP * (i + groups.index(group_of(cells[i])) + 0.5)
    out, right = [], LEFT + STEP * (len(cells) + len(groups) - 1)
    for tick in TICKS:
        if low <= tick <= high:
            out.append(f'<line x1="{LEFT}" y1="{y(tick):.1f}" x2="{right}" y2="{y(tick):.1f}" '
                       f'stroke="{"#333" if tick == 1 else "#ddd"}"/>'
                       f'<text x="{LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for d, causal in groups:
        of = [i for i, c in enumerate(cells) if group_of(c) == (d, causal)]
        out.append(f'<text x="{(x(of[0]) + x(of[-1])) / 2:.1f}" y="{top + PANEL + 30}" text-anchor="middle">'
                   f'd{d} {"causal" if causal else "full"}</text>')
        for i in of:
            n = cells[i]["n"]
            out.append(f'<text x="{x(i):.1f}" y="{top + PANEL + 14}" text-anchor="middle" font-size="8">'
                       f'{f"{n // 1024}k" if n >= 1024 else n}</text>')
    for name, of in reversed(series.items()):
        for i, v in enumerate(of):
            if v:
                out.append(f'<circle cx="{x(i):.1f}" cy="{y(v):.1f}" r="{4 if name == "bar" else 3}" fill="{COLOURS[name]}">'
                           f"<title>{escape(label(cells[i]))}: {v:.3f}</title></circle>")
    legend, at = "", LEFT
    for name, of in series.items():
        text = f"{'the fastest of all' if name == 'bar' else table.shown(name)}: {table.geomean(v for v in of if v):.2f}"
        legend += (f'<circle cx="{at + 4}" cy="{top - 12}" r="4" fill="{COLOURS[name]}"/>'
                   f'<text x="{at + 12}" y="{top - 8}">{escape(text)}</text>')
        at += 26 + 6.2 * len(text)
    return out + [f'<text x="{LEFT}" y="{top - 26}" font-weight="bold">{title}: times the speed of (geometric mean)</text>',
                  legend], max(right, at)


def svg(rows, facts):
    """The grid's ratios. Red: against the fastest peer of each cell."""
    out, top, width = [], TOP + 24, 640
    rows = table.pick(rows, of="normal")
    for kind, dtype in ((kind, dtype) for kind in table.grids(rows) for dtype in table.distinct(table.pick(rows, kind), "dtype")):
        points = [(c, of) for c, of in table.by_cell(table.pick(rows, kind, dtype)) if table.least(of, lambda r: table.bar(r)[1])]
        points.sort(key=lambda p: (*group_of(p[0]), p[0]["n"]))
        if points:
            marks, right = panel(points, f"{OP_NAMES[op_of_set(kind)]}, {dtype}", top)
            out += marks
            width = max(width, right + RIGHT)
            top += PANEL + GAP + BOTTOM + 44
    title = f"Attention, fatune beside its peers: {facts.get('gpu', '?')}, {facts.get('date', '?')}"
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{top:.0f}" font-family="sans-serif" '
            f'font-size="11">\n<rect width="100%" height="100%" fill="white"/>\n'
            f'<text x="{LEFT}" y="22" font-size="14">{escape(title)}</text>\n'
            f'<text x="{LEFT}" y="40">normal data; of several runs the lesser ratio</text>\n' + "\n".join(out) + "\n</svg>\n")
