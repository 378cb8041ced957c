// Effects of axes as a forest plot.

/** Labelled places of a logarithmic axis: even steps, fewer if its end is dense, or doublings if it is long. */
function factorTicks(low, high, most) {
  if (high / low < 6) return d3.ticks(low, high, high / low < 3 ? most : Math.max(3, most / 2));
  const doublings = Math.ceil(Math.log2(high / low) / most);
  const places = d3.range(Math.ceil(Math.log2(low) / doublings), Math.floor(Math.log2(high) / doublings) + 1);
  return places.map(place => 2 ** (place * doublings));
}

/** Factors with their intervals around 1. @param {Change[]} changes @param {number | null} wanted */
function drawEffects(changes, width, wanted) {
  const left = Math.min(width / 2, LETTER * d3.max(changes, one => one.words.length) + 12);
  const ends = changes.flatMap(one => [one.ratio, one.low ?? one.ratio, one.high ?? one.ratio]);
  const span = wanted ? [0.9, 1.05 * wanted] : [0.7, 1.4];
  const low = Math.min(span[0], 0.95 * d3.min(ends));
  const high = Math.max(span[1], 1.05 * d3.max(ends));
  const ticks = factorTicks(low, high, width < 500 ? 4 : 7);
  const letters = (left - 12) / LETTER;
  const isKnown = one => one.low !== null;
  const title = one => `${one.words}: ${one.text}`;
  return plot({
    width,
    height: 46 + 30 * changes.length,
    marginLeft: left,
    marginRight: 16,
    marginBottom: 34,
    ariaLabel: "Factors of the throughput with their intervals; the table has the numbers",
    x: { type: "log", label: "times", domain: [low, high] },
    y: {
      domain: changes.map(one => one.words),
      label: null,
      tickSize: 0,
      tickFormat: text => (letters < text.length ? `${text.slice(0, letters - 1)}…` : text),
    },
    marks: [
      Plot.gridX(ticks),
      Plot.axisX(ticks, { text: threeDigits }), // a format leaves out most labels of a logarithmic axis
      Plot.ruleX([1], { stroke: "currentColor" }),
      Plot.ruleX(wanted ? [wanted] : [], { stroke: "currentColor", strokeDasharray: "4 3" }),
      Plot.ruleY(changes, {
        filter: isKnown,
        y: "words",
        x1: "low",
        x2: "high",
        stroke: "var(--accent)",
        strokeWidth: 2,
      }),
      Plot.dot(changes, { y: "words", x: "ratio", fill: "var(--accent)", r: 5, title, tip: true }),
    ],
  });
}
