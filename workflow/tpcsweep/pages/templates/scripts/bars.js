// Shares of a cell's time as a bar, and effects of axes as a forest plot.

/** @param {number[][]} shares places of limits, and percentages */
function drawShares(shares, width, label) {
  const known = shares.map(([limit, percent]) => ({ limit, percent }));
  const at = Plot.stackX({ x: "percent", order: null });
  const colourOf = one => limits[one.limit][2];
  const letterOf = one => (one.percent >= 9 ? limits[one.limit][3] : "");
  const title = one => `${limits[one.limit][0]} ${one.percent} %`;
  return plot({
    width,
    height: 34,
    margin: 0,
    ariaLabel: label,
    x: { axis: null, domain: [0, d3.sum(known, one => one.percent)] },
    marks: [
      Plot.barX(known, { ...at, fill: colourOf, insetRight: 1, title }),
      Plot.text(known, {
        ...at,
        fontSize: 13,
        fontWeight: 600,
        text: letterOf,
        fill: one => ink(colourOf(one)),
        pointerEvents: "none",
      }),
    ],
  });
}

/** Factors with their intervals around 1. @param {Change[]} changes @param {number | null} wanted */
function drawEffects(changes, width, wanted) {
  const left = Math.min(width / 2.4, LETTER * d3.max(changes, one => one.words.length) + 12);
  const ends = changes.flatMap(one => [one.ratio, one.low ?? one.ratio, one.high ?? one.ratio]);
  const span = wanted ? [0.9, 1.05 * wanted] : [0.7, 1.4];
  const letters = (left - 12) / LETTER;
  return plot({
    width,
    height: 46 + 30 * changes.length,
    marginLeft: left,
    marginRight: 16,
    marginBottom: 34,
    ariaLabel: "Factors of the throughput with their intervals; the table has the numbers",
    x: {
      type: "log",
      label: "times",
      domain: [Math.min(span[0], 0.95 * d3.min(ends)), Math.max(span[1], 1.05 * d3.max(ends))],
      ticks: width < 500 ? 3 : 6,
      tickFormat: "~g",
      grid: true,
    },
    y: {
      domain: changes.map(one => one.words),
      label: null,
      tickSize: 0,
      tickFormat: text => (letters < text.length ? `${text.slice(0, letters - 1)}…` : text),
    },
    marks: [
      Plot.ruleX([1], { stroke: "currentColor" }),
      Plot.ruleX(wanted ? [wanted] : [], { stroke: "currentColor", strokeDasharray: "4 3" }),
      Plot.ruleY(
        changes.filter(one => one.low !== null),
        {
          y: "words",
          x1: "low",
          x2: "high",
          stroke: "var(--accent)",
          strokeWidth: 2,
        },
      ),
      Plot.dot(changes, {
        y: "words",
        x: "ratio",
        fill: "var(--accent)",
        r: 5,
        title: one => `${one.words}: ${one.text}`,
        tip: true,
      }),
    ],
  });
}
