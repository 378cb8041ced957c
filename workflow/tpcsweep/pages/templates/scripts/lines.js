// Throughput over one axis, with a line for each value of another one, intervals, and the path's rate.

/** Colours of lines: by lightness if the values are ordered. @param {string[]} values */
function lineColours(values) {
  const isOrdered = values.every(text => /^[\d.]/.test(text));
  if (!isOrdered) return values.map((_, at) => d3.schemeObservable10[at % 10]);
  const darkest = isDark() ? 0.3 : 0;
  return values.map((_, at) => d3.interpolateViridis(darkest + (0.7 * at) / Math.max(1, values.length - 1)));
}

/** The end of the scale of throughput: the path's rate, unless it is far above everything. @param {Setting[]} known */
function topOf(known) {
  const path = d3.max(known, row => row.path) ?? 0;
  const most = d3.max(known, row => row.mean) ?? 0;
  return 1.1 * Math.max(path < 3 * most ? path : 0, most) || 1;
}

/** One setting for each rate of the path in each panel. */
function pathRates(known, { fx, fy }) {
  const rateIn = row => JSON.stringify([row.path, fx?.(row), fy?.(row)]);
  return [...new Map(known.map(row => [rateIn(row), row])).values()];
}

function lineMarks(rows, line, top, { channels, facets }) {
  const known = rows.filter(row => row.mean !== null);
  const unknown = rows.filter(row => row.mean === null);
  const fitted = known.filter(row => row.fitted !== null);
  const beyond = known.filter(row => row.high > top);
  const paths = pathRates(
    known.filter(row => row.path !== null && row.path < top),
    facets,
  );
  const at = { ...channels, stroke: line, z: line };
  const ends = { y1: row => Math.max(row.low, 0), y2: row => Math.min(row.high, top) };
  const cross = { symbol: "times", r: 4, stroke: "var(--invalid)", strokeWidth: 2 };
  return [
    Plot.ruleY(paths, { y: "path", ...facets, stroke: "currentColor", strokeDasharray: "5 4", strokeOpacity: 0.6 }),
    Plot.ruleX(known, { ...channels, ...ends, stroke: line, strokeWidth: 1.4, strokeOpacity: 0.75 }),
    Plot.text(beyond, { ...channels, y: top, text: () => "▲", fill: line, fontSize: 8, dy: 4 }),
    Plot.line(known, { ...at, y: "mean", strokeWidth: 2 }),
    Plot.line(fitted, { ...at, y: row => Math.min(row.fitted, top), strokeDasharray: "2 4", strokeWidth: 1.2 }),
    Plot.dot(unknown, { ...channels, y: 0, ...cross, ...LINKED }),
    Plot.dot(known, {
      ...at,
      y: "mean",
      r: 4,
      strokeWidth: 1.6,
      fill: row => (isDoubtful(row) ? "var(--card)" : line(row)),
      ...LINKED,
    }),
    Plot.frame({ stroke: "var(--line)" }),
    tips(rows, { ...channels, y: row => row.mean ?? 0 }),
  ];
}

/** @param {Setting[]} rows @param {Places} axesAt */
function drawLines(rows, axesAt, room) {
  const layout = panels(rows, axesAt, room);
  const top = topOf(rows.filter(row => row.mean !== null));
  const left = 52;
  const values = valuesIn(rows, axesAt.y);
  /** @type {ScaleOptions} */
  const color = { type: "ordinal", domain: values, range: lineColours(values), unknown: "var(--card)" };
  const panelHeight = Math.max(120, Math.min(330, 460 / layout.rowCount));
  const options = {
    ...layout.options,
    width: Math.max(room, left + layout.right + layout.columnCount * 110),
    height: 80 + layout.rowCount * panelHeight,
    marginLeft: left,
    x: { ...layout.x, type: "point", padding: 0.3 },
    y: { label: "Gbit/s", domain: [0, top], nice: false, grid: true, ticks: 5 },
    color,
    marks: lineMarks(rows, channelOf(axesAt.y), top, layout),
  };
  const legend = values.length > 1 ? [`${labelOf(axesAt.y)}:`, legendOf(color)] : [];
  return { chart: plot(options, "group"), legend };
}
