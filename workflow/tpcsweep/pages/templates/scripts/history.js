// The chart of a history: the mean of all cells in each run.

/** @type {History} */
const kept = JSON.parse(document.getElementById("runs").textContent);
const changes = kept.changes.map(change => ({ ...change, day: new Date(change.time) }));
const runs = kept.runs.map(run => ({ ...run, day: new Date(run.time) }));

/** Dashed lines at changes, with their verdicts above. */
function changeMarks() {
  const colours = { slower: "var(--invalid)", faster: "var(--accent)" };
  const fill = ({ verdict }) => colours[verdict] ?? "var(--ink)";
  return [
    Plot.ruleX(changes, { x: "day", stroke: "var(--soft)", strokeDasharray: "4 4" }),
    Plot.text(changes, { x: "day", text: "verdict", fill, frameAnchor: "top", dy: -14, fontWeight: 600 }),
  ];
}

/** Means between changes. */
function meanMarks() {
  const edges = [runs[0], ...changes, runs.at(-1)].map(({ day }) => day);
  const parts = d3.pairs(edges, (from, to) => ({ from, to })).map((part, at) => ({ ...part, ratio: kept.levels[at] }));
  const known = parts.filter(({ ratio }) => ratio !== null);
  return Plot.ruleY(known, { y: "ratio", x1: "from", x2: "to", stroke: "var(--mark)", strokeWidth: 2 });
}

/** A dot for each run, hollow if settings differ from those of the run before. */
function runMarks() {
  const known = runs.filter(({ ratio }) => ratio !== null);
  const at = { x: "day", y: "ratio" };
  const fill = run => (run.differs ? "var(--card)" : "var(--accent)");
  return [
    Plot.dot(known, { ...at, r: 4, stroke: "var(--accent)", strokeWidth: 1.6, fill }),
    Plot.tip(known, Plot.pointer({ ...at, title: "text" })),
  ];
}

drawForWidths(() => {
  const box = document.querySelector(".trend .plot");
  const width = box.clientWidth;
  const chart = plot({
    width,
    height: 260,
    marginLeft: 52,
    marginRight: 16,
    marginTop: 34,
    marginBottom: 38, // dates have two lines
    x: { type: "utc", label: null, ticks: width < 600 ? 4 : 7, inset: 6 },
    y: { label: "times what it was at first", grid: true, ticks: 5, inset: 8, zero: false },
    ariaLabel:
      "Mean of all cells in each run, as a multiple of what it was before the first change; " +
      "the table of cells and the sentences above have the numbers",
    marks: [changeMarks(), meanMarks(), runMarks()],
  });
  box.replaceChildren(chart);
});
