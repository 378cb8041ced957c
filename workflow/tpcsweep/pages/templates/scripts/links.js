// The matrix of a mesh: each link at its best setting, sources down and destinations across.

const NARROWEST = 15; // px, of a field of the matrix
const WRITTEN = 38; // px, width of a field from which it has its number
const LINK = ["source", "destination"].map(key => axes.findIndex(axis => axis.key === key));

/** Links of the matrix by the places of their sites. @type {Map<string, any>} */
let fields = new Map();

/** Places of the source and of the destination of a setting, as text. */
function sitesOf(row) {
  return LINK.map(axis => row.at[axis] ?? 0).join();
}

function fieldOf(row) {
  return fields.get(sitesOf(row));
}

/** The links, each with its fastest setting; an invalid one only without others. */
function linkRows() {
  const worth = row => (row.grade < 3 ? (row.mean ?? -1) : -2);
  const best = d3.rollup(settings, rows => d3.greatest(rows, worth), sitesOf);
  return data.links.links.map(link => ({ ...link, setting: best.get(`${link.source},${link.destination}`) }));
}

/** What the comparison of all links says of the one that a setting is the best of. */
function aboutLink(row) {
  const link = data.links && linkRows().find(({ setting }) => setting === row);
  return link?.about && `As a link: ${link.about}.`;
}

/**
 * A scale of colours for rates; logarithmic if they are far apart.
 * @param {number[]} rates
 * @returns {ScaleOptions}
 */
function linkScale(rates) {
  const [low, high] = d3.extent(rates);
  const isWide = high > 20 * low;
  return { type: isWide ? "log" : "linear", scheme: "viridis", domain: [isWide ? low : 0, high || 1], label: "Gbit/s" };
}

/** @param {ReturnType<typeof linkRows>} rows @param {ScaleOptions} color */
function linkMarks(rows, color, width) {
  const [compared, others] = [rows.filter(row => row.compared), rows.filter(row => !row.compared)];
  const known = rows.filter(row => row.rate !== null);
  const colours = Plot.scale({ color });
  const { sources, destinations } = data.links;
  const at = { x: link => destinations[link.destination], y: link => sources[link.source] };
  const linked = { ...at, inset: 0.5, href: row => linkTo(row.setting), ariaLabel: "text" };
  const inkOf = row => (row.compared ? ink(colours.apply(row.rate)) : "currentColor");
  const written = { ...at, fill: inkOf, pointerEvents: "none" };
  const isWritten = width >= WRITTEN;
  const beside = isWritten ? { fontSize: 11, dy: -9 } : { fontSize: width - 3 };
  return [
    Plot.cell(compared, { ...linked, fill: "rate" }),
    Plot.cell(others, { ...linked, fill: row => (row.rate === null ? "url(#none)" : "var(--empty)") }),
    isWritten ? Plot.text(known, { ...written, text: "value", fontWeight: 600, dy: 4 }) : null,
    Plot.text(known, { ...written, text: "mark", ...beside }),
    tips(rows, { ...at, title: "text" }),
  ];
}

function drawLinks() {
  if (!data.links) return;
  const { sources, destinations } = data.links;
  const rows = linkRows();
  const [left, below] = [widest(sources) + 26, widest(destinations) + 30];
  const box = find("links");
  const width = Math.max(NARROWEST, Math.min(64, (box.clientWidth - left - 8) / destinations.length));
  const color = linkScale(rows.filter(row => row.compared && row.rate !== null).map(row => row.rate));
  const options = {
    width: left + 8 + width * destinations.length,
    height: below + 8 + Math.min(width, 40) * sources.length,
    marginLeft: left,
    marginRight: 8,
    marginTop: 8,
    marginBottom: below,
    ariaLabel: "Throughput of each link; the sentences name the slow ones",
    x: { domain: destinations, label: "destination", tickRotate: -90, tickSize: 0, padding: 0 },
    y: { domain: sources, label: "source", tickSize: 0, padding: 0 },
    color,
    marks: linkMarks(rows, color, width),
  };
  const chart = plot(options, "group");
  box.replaceChildren(chart);
  const byTarget = linksOf(chart);
  fields = new Map(rows.map(({ setting }) => [sitesOf(setting), byTarget.get(linkTo(setting))]));
  find("links-legend").replaceChildren(legendOf(color, RAMP));
}
