// Every setting as a field of a map, coloured by its limit or by a number.

const PALE = 0.6; // opacity of a field with a wide interval
const NO_LIMIT = "none";
const LIMIT_SCALE = {
  type: "ordinal",
  domain: [...limits.map(({ name }) => name), NO_LIMIT],
  // It follows the theme, which may change.
  get range() {
    return [...limits.map((_, limit) => limitColour(limit)), isDark() ? "#39414b" : "#e4e4e4"];
  },
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

/** What each map shows: the scale of colours, what is on the scale, the texts of fields, and whether it is measured. */
const MAPS = {
  limit: {
    scale: LIMIT_SCALE,
    fill: row => limits[row.limit]?.name ?? NO_LIMIT,
    texts: points.value,
    isMeasured: true,
  },
  value: { scale: RATE_SCALE, fill: row => row.mean, texts: points.value, isMeasured: true },
  fitted: { scale: RATE_SCALE, fill: row => row.fitted, texts: points.fitted, isMeasured: false },
  ratio: { scale: RATIO_SCALE, fill: row => row.ratio, texts: points.ratio, isMeasured: false },
};

function isPale(row) {
  return row.half > 100 * data.wide;
}

/** Lines of text in a field: letter of the limit and number, and the half-width of the interval. */
function fieldText(row, { texts, isMeasured }, width) {
  const letter = state.view === "limit" && row.limit >= 0 && width >= 52 ? `${limits[row.limit].letter} ` : "";
  const half = isMeasured && row.half !== null ? `\n±${points.half[row.point]} %` : "";
  return `${letter}${texts[row.point] ?? ""}${half}`;
}

/** Texts of fields, outlined where a hatching is behind them. */
function fieldTexts(rows, map, width, channels) {
  const colours = Plot.scale({ color: /** @type {ScaleOptions} */ (map.scale) });
  const paper = getComputedStyle(document.body).getPropertyValue("--paper");
  const inkOf = row => {
    const colour = colours.apply(map.fill(row));
    return ink(isPale(row) ? d3.interpolateRgb(paper, colour)(PALE) : colour);
  };
  const haloOf = row => (inkOf(row) === "#111" ? "#fff" : "#111");
  return Plot.text(rows, {
    ...channels,
    className: "numbers",
    pointerEvents: "none",
    fontSize: width < 46 ? 10 : 12,
    fontWeight: 600,
    lineHeight: 1.05,
    fill: inkOf,
    stroke: row => (isDoubtful(row) ? haloOf(row) : "none"),
    strokeWidth: 2,
    text: row => fieldText(row, map, width),
  });
}

function mapMarks(rows, map, width, isWritten, channels) {
  const [known, unknown] = [rows.filter(row => row.mean !== null), rows.filter(row => row.mean === null)];
  const at = { ...channels, inset: width < 12 ? 0 : 0.7 };
  const hatched = (grade, className) => {
    const carrying = known.filter(row => row.grade === grade);
    return Plot.cell(carrying, { ...at, className, pointerEvents: "none", fill: `url(#${className})` });
  };
  return [
    Plot.cell(known, { ...at, fill: map.fill, fillOpacity: row => (isPale(row) ? PALE : 1), ...LINKED }),
    Plot.cell(unknown, { ...at, className: "none", fill: "url(#none)", ...LINKED }),
    hatched(2, "warning"),
    hatched(3, "invalid"),
    isWritten ? fieldTexts(known, map, width, channels) : null,
    tips(rows, channels),
  ];
}

/** Names and colours of the limits, most frequent first, and of hatchings. */
function limitEntries(rows) {
  const known = rows.filter(row => row.mean !== null);
  const limited = known.filter(row => row.limit >= 0);
  const byLimit = d3.sort(
    d3.group(limited, row => row.limit),
    ([, group]) => -group.length,
  );
  const entries = byLimit.map(([limit, group]) => {
    const warned = group.filter(isDoubtful).length;
    const counts = `${group.length - warned}${warned ? ` + ${warned} with a warning` : ""}`;
    return [`${limits[limit].letter} ${limits[limit].name} (${counts})`, limitColour(limit)];
  });
  if (known.some(row => row.grade === 2)) entries.push([`with a warning, ${data.warned}`, "url(#warning)"]);
  if (known.some(row => row.grade === 3)) entries.push(["invalid", "url(#invalid)"]);
  if (known.length < rows.length) entries.push(["failed or not measured", "url(#none)"]);
  return entries;
}

function mapLegend(rows, { scale }) {
  if (state.view !== "limit") return legendOf(/** @type {ScaleOptions} */ (scale), RAMP);
  const entries = limitEntries(rows);
  return legendOf({ type: "ordinal", domain: entries.map(([name]) => name), range: entries.map(([, fill]) => fill) });
}

/** @param {Setting[]} rows @param {AxesInPlaces} axesAt */
function drawMap(rows, axesAt, room) {
  const map = MAPS[state.view];
  const layout = panels(rows, axesAt, room);
  const up = valuesIn(rows, axesAt.y);
  const left = axesAt.y < 0 ? 12 : widest(up) + 26;
  const panelWidth = Math.max(90, 4 * layout.across.length);
  const width = Math.max(room, left + layout.right + layout.columnCount * panelWidth);
  const fieldWidth = (width - left - layout.right) / layout.columnCount / layout.across.length;
  const fieldHeight = up.length > SEVERAL ? Math.max(4, Math.min(14, fieldWidth)) : 38;
  const isWritten = fieldWidth >= 36 && up.length <= SEVERAL;
  const upScale = { label: labelOf(axesAt.y), type: "band", domain: up, reverse: !axes[axesAt.y]?.words, padding: 0 };
  const options = {
    ...layout.options,
    width,
    height: layout.margins + layout.rowCount * (up.length * fieldHeight + 8),
    marginLeft: left,
    x: { ...layout.x, type: "band", padding: 0 },
    y: { ...upScale, axis: axesAt.y < 0 ? null : "left", ticks: thinned(up, SEVERAL), tickSize: 0 },
    color: map.scale,
    marks: mapMarks(rows, map, fieldWidth, isWritten, { ...layout.channels, y: channelOf(axesAt.y) }),
  };
  return { chart: plot(options, "group"), legend: [mapLegend(rows, map)] };
}
