// Charts of a history: the mean of all cells in each run, and each cell around its own mean.

/** @type {History} */
const kept = JSON.parse(document.getElementById("runs").textContent);
const days = kept.runs.map(run => new Date(run.time));
const changedAt = kept.changes.map(change => new Date(change.time));

/** Dashed lines at changes. */
function changeMarks() {
  return Plot.ruleX(changedAt, { stroke: "var(--soft)", strokeDasharray: "4 4" });
}

/** Names of the changes' directions, above their lines. */
function verdictMarks() {
  const colours = { slower: "var(--invalid)", faster: "var(--accent)" };
  const fill = (_, at) => colours[kept.changes[at].verdict] ?? "var(--ink)";
  const text = (_, at) => kept.changes[at].verdict;
  return Plot.text(changedAt, { x: day => day, text, fill, frameAnchor: "top", dy: -14, fontWeight: 600 });
}

/** Means between changes. */
function meanMarks() {
  const edges = [days[0], ...changedAt, days.at(-1)];
  const parts = kept.levels.map((ratio, at) => ({ ratio, from: edges[at], to: edges[at + 1] }));
  const known = parts.filter(part => part.ratio !== null);
  return Plot.ruleY(known, { y: "ratio", x1: "from", x2: "to", stroke: "var(--mark)", strokeWidth: 2 });
}

/** A dot for each run, hollow if settings differ from those of the run before. */
function runMarks() {
  const runs = kept.runs.map((run, at) => ({ ...run, day: days[at] })).filter(run => run.ratio !== null);
  const at = { x: "day", y: "ratio" };
  return [
    Plot.dot(runs, {
      ...at,
      r: 4,
      stroke: "var(--accent)",
      strokeWidth: 1.6,
      fill: run => (run.differs ? "var(--card)" : "var(--accent)"),
    }),
    Plot.tip(runs, Plot.pointer({ ...at, title: "text" })),
  ];
}

function drawTrend() {
  const box = document.querySelector(".trend .plot");
  const width = box.clientWidth;
  const chart = plot({
    width,
    height: 260,
    marginLeft: 52,
    marginRight: 16,
    marginTop: 34,
    x: { type: "utc", label: null, ticks: width < 600 ? 4 : 7, inset: 6 },
    y: { label: "times what it was at first", grid: true, ticks: 5, inset: 8, zero: false },
    ariaLabel:
      "Mean of all cells in each run, as a multiple of what it was before the first change; " +
      "the table of cells and the sentences above have the numbers",
    marks: [changeMarks(), verdictMarks(), meanMarks(), runMarks()],
  });
  box.replaceChildren(chart);
}

/** The ratios of a cell in all runs; a run without it interrupts the line. */
function drawSpark(box) {
  const ratios = kept.cells[Number(box.dataset.cell)];
  const all = days.map((day, at) => ({ day, ratio: ratios[at] }));
  const isAlone = (_, at) =>
    all[at].ratio !== null && [all[at - 1], all[at + 1]].every(one => (one?.ratio ?? null) === null);
  const chart = plot({
    width: box.clientWidth,
    height: 32,
    margin: 2,
    axis: null,
    x: { type: "utc", domain: d3.extent(days) },
    y: { domain: kept.span },
    marks: [
      changeMarks(),
      Plot.line(all, { x: "day", y: "ratio", stroke: "var(--accent)", strokeWidth: 1.8 }),
      Plot.dot(all.filter(isAlone), { x: "day", y: "ratio", fill: "var(--accent)", r: 2 }),
    ],
  });
  chart.removeAttribute("role");
  chart.setAttribute("aria-hidden", "true"); // its row has the numbers
  box.replaceChildren(chart);
}

function drawHistory() {
  drawTrend();
  document.querySelectorAll(".spark").forEach(drawSpark);
}

addEventListener("resize", drawTrend);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawHistory);
drawHistory();
