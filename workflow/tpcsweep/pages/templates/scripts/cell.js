// The panel of the chosen setting: what limits it and what helps, its repetitions, and the samples of one.

const messages = new Map(cells.message);

/** Fill a part of the panel; a part without content is not shown. @param {...any} content */
function fill(part, ...content) {
  find(part).replaceChildren(...content.filter(Boolean));
}

function strong(text) {
  return d3.create("strong").text(text).node();
}

/** Number of the shown repetition: the chosen one, or the first one with a throughput. */
function repetitionOf(row) {
  const known = cellsOf(row).findIndex(cell => cells.value[cell] !== null);
  return Math.max(0, state.repetition ? repetitions.indexOf(state.repetition) : known);
}

/** The setting's mean; each repetition is listed below. */
function fillThroughput(row) {
  const interval = intervalOf(points, row.point);
  const fitted = row.fitted === null ? "" : `; fitted ${points.fitted[row.point]}`;
  fill("rate", rateOf(row));
  const ends = interval ? `${data.interval} ${interval}` : data.no_interval;
  fill("unit", row.mean !== null && `Gbit/s${ends && `, ${ends}`}${fitted}`);
}

/** Why the throughput is no higher. @param {number[][]} shares limits with percentages of the setting's time */
function causeOf(row, shares) {
  const pause = points.paused?.[row.point];
  if (pause) return [strong("Paused at a server's request"), ` for ${pause} % of its time: ${data.pause}`];
  const causes = [row.limit, row.second].filter(limit => limit >= 0);
  return causes.flatMap(limit => {
    const percent = new Map(/** @type {[number, number][]} */ (shares)).get(limit);
    const time = percent ? ` for ${percent} % of its time` : "";
    return ["Limited by ", strong(limits[limit].name), `${time}: ${limits[limit].meaning}. `];
  });
}

/** The setting's limits, the change that helps, and shares of its time. */
function fillEvidence(row) {
  const shares = row.mean === null ? [] : (points.shares?.[row.point] ?? []);
  const cause = row.mean === null ? [] : causeOf(row, shares);
  fill("cause", ...cause);
  fill("advice", cause.length > 0 && points.advice.texts[points.advice.at[row.point]]);
  const list = shares.map(([limit, percent]) => `by ${limits[limit].name} (${limits[limit].letter}) for ${percent} %`);
  fill("shares", list.length > 0 && `Its time was limited ${list.join(", ")}.`);
  const bar = d3.select("#bar").attr("aria-label", `The setting's time was limited ${list.join(", ")}`);
  const parts = bar.selectAll("span").data(shares).join("span");
  parts.text(([limit, percent]) => (percent >= 9 ? limits[limit].letter : ""));
  parts.attr("title", (_, at) => list[at]).style("flex-grow", ([, percent]) => percent);
  parts.style("background", ([limit]) => limitColour(limit)).style("color", ([limit]) => ink(limitColour(limit)));
}

/** Show the setting's flags, all of which are in the panel, and how quiet the machine was. */
function fillFlags(row) {
  const shares = new Map(row.flags.map(({ flag, share }) => [flag, share]));
  const all = d3.selectAll("#cell .flag").attr("hidden", (_, flag) => (shares.has(flag) ? null : ""));
  all.select("summary span").text((_, flag) => shares.get(flag) ?? "");
  find("unflagged").hidden = row.flags.length > 0;
  fill("machine", points.machine && points.machine.texts[points.machine.at[row.point]]);
}

/** List every repetition, if there are several. */
function fillRepetitions(row, shown) {
  if (repetitions.length < 2) return;
  const own = cellsOf(row);
  const count = d3.sum(own, cell => cells.counts[cell]);
  const rows = own.map((cell, at) => [
    repetitions[at],
    cells.value[cell] ?? data.states[cells.status[cell]],
    intervalOf(cells, cell),
    limits[cells.limit[cell]]?.name ?? "",
    cells.marks.texts[cells.marks.at[cell]],
  ]);
  fill("mean", count ? `Mean of ${count} of ${own.length} repetitions. ${data.scatter}` : "Repetitions:");
  fillTable("#repetitions", rows);
  find("cell").querySelector("[name=repetition]").value = repetitions[shown];
}

/** @typedef {ReturnType<typeof aboutCell>} AboutCell */

/** What the charts of a cell show beside its samples. */
function aboutCell(row, cell) {
  const warmup = cells.figures.find(figure => figure.key === "warmup")?.values[cell];
  return {
    mean: amount(cells.value[cell]),
    low: amount(cells.low[cell]),
    high: amount(cells.high[cell]),
    path: row.path,
    quota: row.quota,
    warmup: amount(warmup),
  };
}

function openCell() {
  const row = chosen();
  if (!row) return;
  const repetition = repetitionOf(row);
  const cell = cellOf(row, repetition);
  fill("named", named(row) || "The setting");
  fillThroughput(row);
  fill("of-link", aboutLink(row));
  fillEvidence(row);
  fillFlags(row);
  fillRepetitions(row, repetition);
  fill("message", messages.get(cell));
  const started = cells.started?.[cell];
  fill("started", started && `Started ${started} UTC.`);
  const charts = drawSeries(cell, aboutCell(row, cell), Math.max(260, find("cell").clientWidth - 36));
  fill("series", ...charts);
  fill("sampled", charts.length ? data.series.explained : data.series.absent);
  fillTransfers(cell);
  const amounts = cells.figures.map(({ name, values }) => [name, ...cellsOf(row).map(one => values[one])]);
  const known = amounts.filter(([, ...texts]) => texts.some(text => text !== null));
  fillTable("#numbers", known);
  fillFiles(row, cell);
  outlineChosen(row);
}
