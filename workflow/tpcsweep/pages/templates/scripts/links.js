// The matrix of a mesh: each link at its best setting, sources down and destinations across.

const NARROWEST = 15; // px, of a field of the matrix
const WRITTEN = 38; // px, width of a field from which it has its number

/** The name of a site with the mark of its verdict. */
function marked(name, mark) {
  return mark ? `${name} ${mark}` : name;
}

function linkRows() {
  const { source, destination, value, mark, text, sources, destinations, sends, receives } = data.links;
  return source.map((from, at) => ({
    from: marked(sources[from], sends[from]),
    to: marked(destinations[destination[at]], receives[destination[at]]),
    rate: amount(value[at]),
    value: value[at],
    mark: mark[at],
    text: text[at],
  }));
}

/**
 * A scale of colours for rates; logarithmic if they are far apart.
 * @param {number[]} rates
 */
function linkScale(rates) {
  const [low, high] = [d3.min(rates), d3.max(rates)];
  const isWide = high > 20 * low;
  return { type: isWide ? "log" : "linear", scheme: "viridis", domain: [isWide ? low : 0, high || 1], label: "Gbit/s" };
}

function drawLinks() {
  if (!data.links) return;
  const { sources, destinations, sends, receives } = data.links;
  const rows = linkRows();
  const known = rows.filter(row => row.rate !== null);
  const up = sources.map((name, at) => marked(name, sends[at]));
  const across = destinations.map((name, at) => marked(name, receives[at]));
  const [left, below] = [widest(up) + 26, widest(across) + 30];
  const box = find("links");
  const field = Math.max(NARROWEST, Math.min(64, (box.clientWidth - left - 8) / across.length));
  const height = Math.min(field, 40);
  const color = linkScale(known.map(row => row.rate));
  const colours = Plot.scale({ color: /** @type {ScaleOptions} */ (color) });
  const inkOf = row => ink(colours.apply(row.rate));
  const at = { x: "to", y: "from" };
  const isWritten = field >= WRITTEN;
  const marks = [
    Plot.cell(known, { ...at, fill: "rate", inset: 0.5 }),
    Plot.cell(
      rows.filter(row => row.rate === null),
      { ...at, fill: "url(#none)", inset: 0.5 },
    ),
    isWritten ? Plot.text(known, { ...at, text: "value", fill: inkOf, fontWeight: 600, dy: 4 }) : null,
    Plot.text(known, {
      ...at,
      text: "mark",
      fill: inkOf,
      fontSize: isWritten ? 11 : field - 3,
      dy: isWritten ? -9 : 0,
    }),
    Plot.tip(rows, Plot.pointer({ ...at, title: "text", maxRadius: 25 })),
  ];
  const chart = plot({
    width: left + 8 + field * across.length,
    height: below + 8 + height * up.length,
    marginLeft: left,
    marginRight: 8,
    marginTop: 8,
    marginBottom: below,
    ariaLabel: "Throughput of each link; the sentences name the slow ones",
    x: { domain: across, label: "destination", tickRotate: -90, tickSize: 0, padding: 0 },
    y: { domain: up, label: "source", tickSize: 0, padding: 0 },
    color,
    marks,
  });
  box.replaceChildren(chart);
  find("links-legend").replaceChildren(legendOf(/** @type {ScaleOptions} */ (color), { width: 260 }));
}
