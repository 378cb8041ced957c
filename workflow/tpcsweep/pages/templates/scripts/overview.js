// A chart for each sweep in the list of all: mean throughput over one axis.

/** @param {Sparkline} line */
function drawLine(line, width) {
  const all = line.values.map((value, at) => ({ value, rate: line.rates[at] }));
  const known = all.filter(one => one.rate !== null);
  const most = d3.max(known, one => one.rate) || 1;
  return plot({
    width,
    height: 118,
    marginLeft: 44,
    marginRight: 24,
    marginTop: 26,
    marginBottom: 30,
    x: { type: "point", domain: line.values, label: line.axis, ticks: [line.values[0], line.values.at(-1)] },
    y: { domain: [0, most], label: "Gbit/s", ticks: [0, most], tickFormat: ".3~g" },
    ariaLabel: `Mean throughput over ${line.axis}, at most ${d3.format(".3~g")(most)} Gbit/s`,
    marks: [
      Plot.line(all, { x: "value", y: "rate", stroke: "var(--accent)", strokeWidth: 2 }),
      Plot.dot(known, {
        x: "value",
        y: "rate",
        fill: "var(--accent)",
        r: 2,
        title: one => `${line.axis} ${one.value}: ${d3.format(".3~g")(one.rate)} Gbit/s`,
        tip: true,
      }),
    ],
  });
}

function drawOverview() {
  for (const box of document.querySelectorAll(".sparkline")) {
    box.replaceChildren(drawLine(JSON.parse(box["dataset"].line), box.clientWidth));
  }
}

addEventListener("resize", drawOverview);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawOverview);
drawOverview();
