// A cell's samples over time: goodput with warm-up, mean, interval and path; CPU with quotas; RTT; retransmits.

const MARGINS = { marginLeft: 52, marginRight: 12, marginTop: 22, marginBottom: 30 };

/** Bytes of each quantity, for all cells. */
const levels = data.series.quantities.map(({ bytes }) => Uint8Array.from(atob(bytes), sign => sign.charCodeAt(0)));

/** Samples of a quantity in a cell: times in s, and values; a gap has none. */
function samplesOf(cell, nth) {
  const { points: count, step, gap, quantities } = data.series;
  const { label, top } = quantities[nth];
  const unit = amount(top[cell]) / (gap - 1);
  const bytes = levels[nth].subarray(cell * count, (cell + 1) * count);
  const samples = Array.from(bytes, (level, at) => ({ time: (at + 0.5) * step, label, level, value: level * unit }));
  return samples.filter(one => one.level < gap);
}

/** Warm-up, interval and mean of a goodput. */
function goodputMarks({ warmup, low, high, mean }, end, top) {
  const interval = { x1: warmup ?? 0, x2: end, y1: Math.max(0, low), y2: Math.min(top, high) };
  return [
    low === null ? null : Plot.rect([0], { ...interval, fill: "var(--mark)", fillOpacity: 0.25 }),
    mean === null ? null : Plot.ruleY([mean], { stroke: "var(--mark)", strokeWidth: 1.5 }),
  ];
}

/** A dashed line with its name. */
function limitMarks(limit, name) {
  return [
    Plot.ruleY([limit], { stroke: "currentColor", strokeDasharray: "5 4" }),
    Plot.text([limit], { y: limit, text: [name], frameAnchor: "right", dy: -7 }),
  ];
}

/** Lines of samples, a dot for a single one, and tips. */
function sampleMarks(held, units) {
  const all = held.flatMap(({ samples }) => samples);
  const single = held.filter(({ samples }) => samples.length === 1).flatMap(({ samples }) => samples);
  const title = one => `${one.label} ${threeDigits(one.value)} ${units} at ${one.time.toFixed(1)} s`;
  const at = { x: "time", y: "value" };
  return [
    Plot.line(all, { ...at, z: "label", stroke: "label", strokeWidth: 1.7, className: "line" }),
    Plot.dot(single, { ...at, stroke: "label" }),
    Plot.tip(all, Plot.pointerX({ ...at, title })),
  ];
}

/** The chart of quantities with the same unit, with its legend. */
function seriesChart(title, held, about, end, width) {
  const isGoodput = title === "goodput";
  const limit = { goodput: about.path, CPU: about.quota }[title] ?? null;
  const { units } = held[0];
  const most = Number(d3.max(held, ({ samples }) => d3.max(samples, one => one.value)));
  const shownLimit = limit < 4 * most ? limit : 0;
  const high = 1.08 * Math.max(most, (isGoodput && about.high) || 0, shownLimit || 0) || 1;
  const color = { domain: held.map(one => one.label), range: held.map(one => one.colour) };
  const warmup = { x1: 0, x2: Math.min(end, about.warmup), y1: 0, y2: high, fill: "currentColor", fillOpacity: 0.1 };
  const chart = plot({
    ...MARGINS,
    width,
    height: isGoodput ? 200 : 120,
    x: { domain: [0, end], label: "s", ticks: 6 },
    y: { domain: [0, high], label: `${title} (${units || "1"})`, grid: true, ticks: isGoodput ? 4 : 3 },
    color,
    ariaLabel: `${title} over ${end.toFixed(0)} s, at most ${threeDigits(most)} ${units}`,
    marks: [
      about.warmup ? Plot.rect([0], warmup) : null,
      isGoodput ? goodputMarks(about, end, high) : null,
      limit && limit <= high ? limitMarks(limit, isGoodput ? "path" : "quota") : null,
      sampleMarks(held, units),
    ],
  });
  chart.classList.add("series", title.replaceAll(" ", "-"));
  return held.length > 1 ? [legendOf({ type: "ordinal", ...color }), chart] : [chart];
}

/** Charts of a cell, or none without samples. @param {AboutCell} about */
function drawSeries(cell, about, width) {
  const { points: count, step, quantities } = data.series;
  const sampled = count ? quantities.map((quantity, nth) => ({ ...quantity, samples: samplesOf(cell, nth) })) : [];
  if (!sampled[0]?.samples.length) return [];
  const end = d3.max(sampled, ({ samples }) => d3.max(samples, one => one.time)) + step / 2;
  const held = sampled.filter(({ samples }) => samples.length);
  return d3.groups(held, one => one.chart).flatMap(([title, group]) => seriesChart(title, group, about, end, width));
}
