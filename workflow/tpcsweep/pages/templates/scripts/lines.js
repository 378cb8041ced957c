// Throughput over one axis, with a line for each value of another one, intervals, and the path's rate.

const COLOURS = d3.schemeObservable10;
/** Symbols of points and dashes of lines, each for as many lines as there are colours. */
const LOOKS = [
  ["circle", "none"],
  ["square", "7 3"],
  ["triangle", "2 3"],
  ["diamond", "9 3 2 3"],
];
const MOST_LINES = LOOKS.length * COLOURS.length; // of words; more would look alike

const APART = 10; // px, between the marks of neighbouring lines, where they have room
const LEAST_APART = 3; // px, below which marks stand at their values

/** Place in `LOOKS` of a line. @param {number} at its place */
function lookOf(at) {
  return Math.floor(at / COLOURS.length);
}

/** Colours of lines: by lightness if the values are ordered. @param {string[]} values */
function lineColours(values, isOrdered) {
  if (!isOrdered) return values.map((_, at) => COLOURS[at % COLOURS.length]);
  const darkest = isDark() ? 0.3 : 0;
  return values.map((_, at) => d3.interpolateViridis(darkest + (0.7 * at) / Math.max(1, values.length - 1)));
}

/** The end of the scale of throughput: the path's rate, unless it is far above everything. @param {Setting[]} known */
function topOf(known) {
  const most = d3.max(known, row => row.mean) ?? 0;
  const path = d3.max(known, row => row.path) ?? 0;
  return 1.1 * Math.max(path < 3 * most ? path : 0, most) || 1;
}

/** Marks of one line: intervals, means, and the fit; `dx` keeps them from covering those of other lines. */
function marksOfLine(rows, line, strokeDasharray, top, dx, channels) {
  const at = { ...channels, stroke: line, z: line, dx };
  const ends = { y1: row => Math.max(row.low, 0), y2: row => Math.min(row.high, top) };
  const interval = { ...channels, ...ends, dx, stroke: line, strokeWidth: 1.4, strokeOpacity: 0.75 };
  const fitted = { y: row => Math.min(row.fitted, top), className: "fit", strokeDasharray: "2 4", strokeWidth: 1.2 };
  const beyond = { y: top, text: () => "▲", fill: line, fontSize: 8, dx, dy: 4 };
  return [
    Plot.ruleX(rows, { ...interval, filter: row => row.high !== null, className: "interval" }),
    Plot.text(rows, { ...channels, ...beyond, filter: row => row.high > top, className: "beyond" }),
    Plot.line(rows, { ...at, y: "mean", strokeWidth: 2, strokeDasharray }),
    Plot.line(
      rows.filter(row => row.fitted !== null),
      { ...at, ...fitted },
    ),
    Plot.dot(rows, {
      ...at,
      y: "mean",
      r: 4,
      symbol: line,
      strokeWidth: 1.6,
      fill: row => (isDoubtful(row) ? "var(--card)" : line(row)),
      ...LINKED,
    }),
  ];
}

/** @param {string[]} shown values of lines @param {number} apart px between the marks of neighbouring ones */
function lineMarks(rows, shown, line, looks, top, apart, { channels, facets }) {
  const byLine = d3.group(
    rows.filter(row => row.mean !== null),
    line,
  );
  const onPaths = rows.filter(row => row.mean !== null && row.path !== null && row.path < top);
  const dashed = { stroke: "currentColor", strokeDasharray: "5 4", strokeOpacity: 0.6 };
  const cross = { symbol: "times", r: 4, stroke: "var(--invalid)", strokeWidth: 2 };
  return [
    Plot.ruleY(onPaths, Plot.selectFirst({ y: "path", z: "path", ...facets, className: "path", ...dashed })),
    ...shown.map((value, nth) => {
      const [, dash] = LOOKS[looks.get(value)];
      const dx = apart * (nth - (shown.length - 1) / 2);
      return marksOfLine(byLine.get(value) ?? [], line, dash, top, dx, channels);
    }),
    Plot.dot(rows, { ...channels, filter: row => row.mean === null, y: 0, className: "none", ...cross, ...LINKED }),
    Plot.frame({ stroke: "var(--line)" }),
    tips(rows, { ...channels, y: row => row.mean ?? 0 }),
  ];
}

/** @param {Setting[]} all @param {AxesInPlaces} axesAt */
function drawLines(all, axesAt, room) {
  const isOrdered = !axes[axesAt.y]?.words;
  const values = valuesIn(all, axesAt.y);
  const shown = values.slice(0, isOrdered ? Infinity : MOST_LINES);
  const line = channelOf(axesAt.y);
  const rows = all.filter(row => shown.includes(line(row)));
  const layout = panels(rows, axesAt, room);
  const top = topOf(rows.filter(row => row.mean !== null));
  const left = 52;
  const looks = new Map(shown.map((value, at) => [value, isOrdered ? 0 : lookOf(at)]));
  const scale = { type: "ordinal", domain: shown, unknown: "var(--card)" };
  const color = /** @type {ScaleOptions} */ ({ ...scale, range: lineColours(shown, isOrdered) });
  const symbol = { domain: shown, range: shown.map(value => LOOKS[looks.get(value)][0]) };
  const panelHeight = Math.max(120, Math.min(330, 460 / layout.rowCount));
  const width = Math.max(room, left + layout.right + layout.columnCount * 110);
  const step = (width - left - layout.right) / layout.columnCount / layout.across.length;
  const apart = Math.min(APART, (0.7 * step) / shown.length);
  const options = {
    ...layout.options,
    width,
    height: layout.margins + layout.rowCount * panelHeight,
    marginLeft: left,
    x: { ...layout.x, type: "point", padding: 0.3 },
    y: { label: "Gbit/s", domain: [0, top], nice: false, grid: true, ticks: 5 },
    color,
    symbol,
    marks: lineMarks(rows, shown, line, looks, top, apart < LEAST_APART ? 0 : apart, layout),
  };
  const isMixed = shown.length > COLOURS.length && !isOrdered;
  const legend =
    shown.length > 1 ? [`${labelOf(axesAt.y)}:`, legendOf(color, isMixed ? { symbol, stroke: "color" } : {})] : [];
  if (shown.length < values.length) legend.push(`(${MOST_LINES} of ${values.length} lines; filter others)`);
  return { chart: plot(options, "group"), legend };
}
