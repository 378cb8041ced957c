// A chart for each sweep in the list of all: mean throughput over one axis.

/** @param {Sparkline} line */
function drawLine(line, width) {
  const all = line.values.map((value, at) => ({ value, rate: line.rates[at] }));
  const known = all.filter(one => one.rate !== null);
  const most = d3.max(known, one => one.rate) || 1;
  const title = one => `${line.axis} ${one.value}: ${threeDigits(one.rate)} Gbit/s`;
  return plot({
    width,
    height: 118,
    marginLeft: 52, // for 0.0123
    marginRight: 24,
    marginTop: 26,
    marginBottom: 30,
    x: { type: "point", domain: line.values, label: line.axis, ticks: [line.values[0], line.values.at(-1)] },
    y: { domain: [0, most], label: "Gbit/s", ticks: [0, most], tickFormat: ".3~g" },
    ariaLabel: `Mean throughput over ${line.axis}, at most ${threeDigits(most)} Gbit/s`,
    marks: [
      Plot.line(all, { x: "value", y: "rate", stroke: "var(--accent)", strokeWidth: 2 }),
      Plot.dot(known, { x: "value", y: "rate", fill: "var(--accent)", r: 2, title, tip: true }),
    ],
  });
}

drawForWidths(() => {
  for (const box of document.querySelectorAll(".sparkline")) {
    box.replaceChildren(drawLine(JSON.parse(box["dataset"].line), box.clientWidth));
  }
});
