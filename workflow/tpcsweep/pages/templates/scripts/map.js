// Every setting as a field of a map, coloured by its limit or by a number.

const PALE = 0.6; // opacity of a field with a wide interval
const NO_LIMIT = "none";
const LIMIT_SCALE = {
  type: "ordinal",
  domain: [...limits.map(([name]) => name), NO_LIMIT],
  range: [...limits.map(([, , colour]) => colour), "#e4e4e4"],
};
const RATE_SCALE = { type: "linear", scheme: "viridis", domain: [0, highest], label: "Gbit/s" };
const RATIO_SCALE = {
  type: "diverging-log",
  pivot: 1,
  domain: [0.5, 2],
  clamp: true,
  scheme: "BuRd",
  label: "fitted over measured",
};

/** What each map shows: the scale of colours, what is on the scale, and the texts of fields. */
const MAPS = {
  limit: { scale: LIMIT_SCALE, fill: row => limits[row.limit]?.[0] ?? NO_LIMIT, texts: points.value },
  value: { scale: RATE_SCALE, fill: row => row.mean, texts: points.value },
  fitted: { scale: RATE_SCALE, fill: row => row.fitted, texts: points.fitted },
  ratio: { scale: RATIO_SCALE, fill: row => row.ratio, texts: points.ratio },
};

/** Half-width of a setting's interval over its mean, or null. */
function halfWidth(row) {
  return row.high === null || !row.mean ? null : (row.high - row.low) / 2 / row.mean;
}

function isPale(row) {
  return halfWidth(row) > WIDE_INTERVAL;
}

/** Lines of text in a field: letter of the limit and number, and the half-width of the interval. */
function fieldText(row, key, width) {
  const letter = key === "limit" && row.limit >= 0 && width >= 52 ? `${limits[row.limit][3]} ` : "";
  const number = letter + (MAPS[key].texts[row.point] ?? "");
  const isMeasured = key === "limit" || key === "value";
  const half = isMeasured ? halfWidth(row) : null;
  return half === null ? number : `${number}\n±${d3.format(".0f")(100 * half)} %`;
}

/** Texts of fields, outlined where a hatching is behind them. */
function fieldTexts(rows, key, width, channels) {
  const { scale, fill } = MAPS[key];
  const colours = Plot.scale({ color: /** @type {ScaleOptions} */ (scale) });
  const paper = getComputedStyle(document.body).getPropertyValue("--paper");
  const colourOf = row => {
    const colour = colours.apply(fill(row));
    return isPale(row) ? d3.interpolateRgb(paper, colour)(PALE) : colour;
  };
  const inkOf = row => ink(colourOf(row));
  const haloOf = row => (inkOf(row) === "#111" ? "#fff" : "#111");
  return Plot.text(rows, {
    ...channels,
    pointerEvents: "none",
    fontSize: width < 46 ? 10 : 12,
    fontWeight: 600,
    lineHeight: 1.05,
    fill: inkOf,
    stroke: row => (isDoubtful(row) ? haloOf(row) : "none"),
    strokeWidth: 2,
    text: row => fieldText(row, key, width),
  });
}

function mapMarks(rows, key, width, isWritten, channels) {
  const known = rows.filter(row => row.mean !== null);
  const unknown = rows.filter(row => row.mean === null);
  const at = { ...channels, inset: width < 12 ? 0 : 0.7 };
  const hatched = (grade, pattern) =>
    Plot.cell(
      known.filter(row => row.grade === grade),
      { ...at, pointerEvents: "none", fill: `url(#${pattern})` },
    );
  return [
    Plot.cell(known, { ...at, fill: MAPS[key].fill, fillOpacity: row => (isPale(row) ? PALE : 1), ...LINKED }),
    Plot.cell(unknown, { ...at, fill: "url(#none)", ...LINKED }),
    hatched(2, "warning"),
    hatched(3, "invalid"),
    isWritten ? fieldTexts(known, key, width, channels) : null,
    tips(rows, channels),
  ];
}

/** Entries for the limits, most frequent first, and for hatchings, as names and colours. */
function limitEntries(rows) {
  const known = rows.filter(row => row.mean !== null);
  const byLimit = d3.groups(
    known.filter(row => row.limit >= 0),
    row => row.limit,
  );
  const entries = d3
    .sort(byLimit, ([, group]) => -group.length)
    .map(([limit, group]) => {
      const [name, , colour, letter] = limits[limit];
      const warned = group.filter(isDoubtful).length;
      const counts = `${group.length - warned}${warned ? ` + ${warned} with a warning` : ""}`;
      return [`${letter} ${name} (${counts})`, colour];
    });
  if (known.some(row => row.grade === 2)) entries.push(["with a warning, in no finding", "url(#warning)"]);
  if (known.some(row => row.grade === 3)) entries.push(["invalid", "url(#invalid)"]);
  if (known.length < rows.length) entries.push(["failed or not measured", "url(#none)"]);
  return entries;
}

function mapLegend(rows, key) {
  const { scale } = MAPS[key];
  if (key !== "limit") return legendOf(/** @type {ScaleOptions} */ (scale), { width: 260 });
  const entries = limitEntries(rows);
  return legendOf({ type: "ordinal", domain: entries.map(([name]) => name), range: entries.map(([, fill]) => fill) });
}

/** @param {Setting[]} rows @param {Places} axesAt @param {string} key of `MAPS` */
function drawMap(rows, axesAt, room, key) {
  const layout = panels(rows, axesAt, room);
  const up = valuesIn(rows, axesAt.y);
  const left = axesAt.y < 0 ? 12 : widest(up) + 26;
  const panelWidth = Math.max(90, 4 * layout.across.length);
  const width = Math.max(room, left + layout.right + layout.columnCount * panelWidth);
  const fieldWidth = (width - left - layout.right) / layout.columnCount / layout.across.length;
  const fieldHeight = up.length > SEVERAL ? Math.max(4, Math.min(14, fieldWidth)) : 38;
  const isWritten = fieldWidth >= 36 && up.length <= SEVERAL;
  const upScale = { label: labelOf(axesAt.y), type: "band", domain: up, reverse: true, padding: 0 };
  const options = {
    ...layout.options,
    width,
    height: 80 + layout.rowCount * (up.length * fieldHeight + 8),
    marginLeft: left,
    x: { ...layout.x, type: "band", padding: 0 },
    y: { ...upScale, axis: axesAt.y < 0 ? null : "left", ticks: thinned(up, SEVERAL), tickSize: 0 },
    color: MAPS[key].scale,
    marks: mapMarks(rows, key, fieldWidth, isWritten, { ...layout.channels, y: channelOf(axesAt.y) }),
  };
  return { chart: plot(options, "group"), legend: [mapLegend(rows, key)] };
}
