// The panel of the chosen cell: what limits it and what helps, its series, transfers, figures and files.

const messages = new Map(cells.message);

function softText(text) {
  return make("p", { class: "soft" }, text);
}

/** Number of the shown repetition: the chosen one, or the first one with a throughput. */
function repetitionOf(row) {
  if (repeated < 0) return 0;
  const known = cellsOf(row).findIndex(cell => cells.value[cell] !== null);
  return Math.max(0, state.repetition ? axes[repeated].values.indexOf(state.repetition) : known);
}

function repetitionChoice(row) {
  if (repeated < 0 || sizes[repeated] < 2) return null;
  const { values } = axes[repeated];
  const mean = points.value[row.point];
  const label = `repetition${mean === null ? "" : ` of a mean of ${mean} Gbit/s`}`;
  const options = values.map(text => [text, text]);
  return make("p", { class: "choices" }, select("repetition", label, options, values[repetitionOf(row)]));
}

function throughputText(row, cell) {
  const value = cells.value[cell];
  if (value === null) return make("p", { class: "value" }, data.states[cells.status[cell]]);
  const interval = between(cells.low[cell], cells.high[cell]);
  const fitted = row.fitted === null ? "" : `; fitted ${points.fitted[row.point]}`;
  const unit = make("small", {}, `Gbit/s${interval && `, interval ${interval}`}${fitted}`);
  return make("p", { class: "value" }, `${value} `, unit);
}

/** The cell's limits, the change that helps, and shares of its time. */
function evidence(cell, width) {
  const shares = cells.shares?.[cell] ?? [];
  const bounds = [cells.limit[cell], cells.second[cell]].filter(limit => limit >= 0);
  if (cells.value[cell] === null) return [];
  if (cells.limit[cell] < 0) return drawnShares(shares, width);
  const advice = cells.advice.texts[cells.advice.at[cell]];
  return [
    make(
      "p",
      {},
      bounds.flatMap(limit => boundText(limit, shares)),
    ),
    advice && make("p", { class: "advice" }, advice),
    drawnShares(shares, width),
  ].flat();
}

function boundText(limit, shares) {
  const [name, meaning] = limits[limit];
  const [, percent] = shares.find(([at]) => at === limit) ?? [];
  const time = percent ? ` for ${percent} % of its time` : "";
  return ["Limited by ", make("strong", {}, name), `${time}: ${meaning}. `];
}

function drawnShares(shares, width) {
  if (!shares.length) return [];
  const list = shares.map(([limit, percent]) => `${limits[limit][0]} ${percent} %`).join(", ");
  const text = make("p", { class: "soft shares" }, `Shares of its time: ${list}.`);
  return [drawShares(shares, width, `Shares of the cell's time: ${list}`), text];
}

function flagsOfCell(cell) {
  const held = flags.filter(flag => cells.flags[cell] & flag.mask);
  if (!held.length) return softText("No flags.");
  return held.map(flag => {
    const element = details(flagText(flag), flag.meaning);
    element.className = `flag ${flag.grade}`;
    return element;
  });
}

/** @typedef {ReturnType<typeof aboutCell>} AboutCell */

/** What the charts of a cell show beside its samples. */
function aboutCell(row, cell) {
  const warmup = cells.figures.find(figure => figure.key === "warmup")?.values[cell] ?? null;
  return {
    mean: amount(cells.value[cell]),
    low: amount(cells.low[cell]),
    high: amount(cells.high[cell]),
    path: row.path,
    quota: row.quota,
    warmup: amount(warmup),
  };
}

function seriesOf(row, cell, width) {
  const charts = drawSeries(cell, aboutCell(row, cell), width);
  if (!charts.length) return softText(data.series.absent);
  return [...charts, softText(`Means of ${data.series.step_text} s; grey: warm-up; band: the interval.`)];
}

function figuresOf(cell) {
  const known = cells.figures.filter(figure => figure.values[cell] !== null);
  const rows = known.map(({ name, units, values }) => [
    make("th", { scope: "row" }, name),
    make("td", { class: "number" }, `${values[cell]} ${units}`),
  ]);
  return details("all its numbers", plainTable([], rows));
}

function openCell() {
  const row = chosen();
  if (!row) return;
  const panel = find("cell");
  const width = Math.max(260, panel.clientWidth - 36);
  const cell = cellOf(row, repetitionOf(row));
  const message = messages.has(cell) && make("pre", { tabindex: 0, "aria-label": "message" }, messages.get(cell));
  const content = [
    make("h2", {}, named(row) || "The cell"),
    repetitionChoice(row),
    throughputText(row, cell),
    message,
    evidence(cell, width),
    flagsOfCell(cell),
    seriesOf(row, cell, width),
    transfersOf(cell),
    figuresOf(cell),
    measuredAgain(cell),
  ];
  panel.replaceChildren(...given(content).filter(Boolean));
  outlineChosen(row);
}
