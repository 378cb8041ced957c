"use strict";
// Charts of a sweep's page, by Observable Plot. A chart returns an element; links in it select cells.

/** The value of a number's text; no number is rounded here. @param {string | null} text */
const amount = text => text === null ? null : Number(text.replace("×10", "e").replace(/[⁻⁰¹²³⁴-⁹]/g, sign => "-0123456789"["⁻⁰¹²³⁴⁵⁶⁷⁸⁹".indexOf(sign)]));
const isDark = () => matchMedia("(prefers-color-scheme: dark)").matches, ink = colour => d3.lab(colour).l > 58 ? "#111" : "#fff";
/** @param {string[]} texts */
const widest = texts => Math.min(150, 7 * d3.max(texts, text => text.length));
const SEVERAL = 20; // values of an axis beyond which its ticks and the numbers of its cells are thinned out
const PALE = .6; // opacity of a cell with a wide interval
const LEGEND = { style: { fontSize: "12px" } };
const SERIES = { marginLeft: 52, marginRight: 12, marginTop: 22, marginBottom: 30, style: { fontSize: "12px" } };

/** Plot, whose groups have their marks' names as data: a label of a group without a role is read to nobody. */
function plot(options, role = "img") {
  const chart = Plot.plot(options);
  for (const group of chart.querySelectorAll("g[aria-label]")) { group.setAttribute("data-mark", group.getAttribute("aria-label")); group.removeAttribute("aria-label"); }
  chart.setAttribute("role", role);
  return chart;
}

/** Colours of the lines of an axis: by lightness if its values are ordered. @param {string[]} values */
function lineColours(values) {
  if (values.every(text => /^[\d.]/.test(text))) return values.map((_, at) => d3.interpolateViridis((isDark() ? .3 : 0) + .7 * at / Math.max(1, values.length - 1)));
  return values.map((_, at) => d3.schemeObservable10[at % 10]);
}

/** Layout that both pictures share: columns of panels across, all other axes in rows, titles at the margins. */
function panels(rows, places, box) {
  const { x, y, columns, rest } = places;
  const text = axis => row => axes[axis].values[row.at[axis]];
  const value = axis => axis < 0 ? () => "" : text(axis);
  const down = rest.length === 1 ? text(rest[0]) : row => rest.map(axis => `${axes[axis].label} ${text(axis)(row)}`).join(", ");
  const domain = axis => axis < 0 ? [""] : axes[axis].values.filter((_, at) => rows.some(row => row.at[axis] === at));
  const rowTexts = rest.length ? [...new Set(rows.map(down))] : [""];
  const across = domain(x), columnTexts = columns < 0 ? [""] : domain(columns);
  const every = Math.ceil(across.length / (box.clientWidth < 600 ? 6 : SEVERAL));
  const right = rest.length ? Math.max(24, Math.min(box.clientWidth / 4, widest(rowTexts))) + 22 : 8;
  const label = axis => axis < 0 ? null : axes[axis].label;
  return {
    across, columnTexts, rowTexts, right, value, domain, label,
    channels: { x: value(x), ...columns < 0 ? {} : { fx: text(columns) }, ...rest.length ? { fy: down } : {} },
    options: {
      marginTop: columns < 0 ? 14 : 42, marginRight: right, marginBottom: 38, style: { fontSize: "12px" },
      x: { label: label(x), domain: across, ticks: across.filter((_, at) => at % every === 0), tickSize: 3, padding: .3 },
      ...columns < 0 ? {} : { fx: { label: label(columns), domain: columnTexts, padding: .06 } },
      ...rest.length ? { fy: { label: rest.length === 1 ? label(rest[0]) : null, domain: rowTexts, padding: .06 } } : {},
    },
  };
}

const linked = { href: row => `#cell=${cellText(row)}`, ariaLabel: row => describe(row) };
const tips = (rows, channels) => Plot.tip(rows, Plot.pointer({ ...channels, title: describe, maxRadius: 25 }));

/** Throughput over x, a line for each value of another axis, with intervals and the path's rate. */
function drawLines(rows, places, box) {
  const { across, columnTexts, rowTexts, right, value, domain, label, channels, options } = panels(rows, places, box);
  const lines = domain(places.y), known = rows.filter(row => row.mean !== null), line = value(places.y);
  const path = +(d3.max(known, row => row.path) ?? 0), most = +(d3.max(known, row => row.mean) ?? 0);
  const top = 1.1 * Math.max(path < 3 * most ? path : 0, most) || 1;
  const at = { ...channels, y: "mean", stroke: line, z: line }, each = { ...at, ...linked };
  const marks = [
    Plot.ruleY(d3.groups(known.filter(row => row.path !== null && row.path < top), row => row.path, channels.fx ?? (() => ""), channels.fy ?? (() => "")).flatMap(([, of]) => of.flatMap(([, few]) => few.map(([, group]) => group[0]))),
      { y: "path", ...channels.fx && { fx: channels.fx }, ...channels.fy && { fy: channels.fy }, stroke: "currentColor", strokeDasharray: "5 4", strokeOpacity: .6 }),
    Plot.ruleX(known, { ...channels, y1: row => Math.min(Math.max(row.low, 0), top), y2: row => Math.min(row.high, top), stroke: line, strokeWidth: 1.4, strokeOpacity: .75 }),
    Plot.text(known.filter(row => row.high > top), { ...channels, y: top, text: () => "▲", fill: line, fontSize: 8, dy: 4 }),
    Plot.line(known, { ...at, strokeWidth: 2 }),
    Plot.line(known.filter(row => row.fitted !== null), { ...at, y: row => Math.min(row.fitted, top), strokeDasharray: "2 4", strokeWidth: 1.2 }),
    Plot.dot(rows.filter(row => row.mean === null), { ...channels, y: 0, symbol: "times", r: 4, stroke: "var(--invalid)", strokeWidth: 2, ...linked }),
    Plot.dot(known, { ...each, r: 4, strokeWidth: 1.6, fill: row => row.grade > 1 ? "var(--card)" : line(row) }),
    Plot.frame({ stroke: "var(--line)" }), tips(rows, { ...channels, y: row => row.mean ?? 0 }),
  ];
  const width = Math.max(box.clientWidth, 52 + right + columnTexts.length * 110);
  const height = 80 + rowTexts.length * Math.max(120, Math.min(330, 460 / rowTexts.length));
  /** @type {ScaleOptions} */
  const colour = { type: "ordinal", domain: lines, range: lineColours(lines), unknown: "var(--card)" };
  const chart = plot({ ...options, width, height, marginLeft: 52, x: { ...options.x, type: "point" }, y: { label: "Gbit/s", domain: [0, top], nice: false, grid: true, ticks: 5 }, color: colour, marks }, "group");
  return { chart, legend: lines.length > 1 ? [`${label(places.y)}:`, Plot.legend({ ...LEGEND, color: colour })] : [] };
}

/** Every cell as a field of a map, coloured by its limit or by a number, with the half-width of its interval. */
function drawMap(rows, places, box, show) {
  const { across, columnTexts, rowTexts, right, value, domain, label, channels, options } = panels(rows, places, box);
  const up = domain(places.y), left = (places.y < 0 ? 12 : widest(up) + 26);
  const width = Math.max(box.clientWidth, left + right + columnTexts.length * Math.max(90, 4 * across.length));
  const room = (width - left - right) / columnTexts.length / across.length;
  const each = up.length > SEVERAL ? Math.max(4, Math.min(14, room)) : 38, written = room >= 30 && up.length <= SEVERAL;
  const at = { ...channels, y: value(places.y), inset: room < 12 ? 0 : .7 }, known = rows.filter(row => row.mean !== null);
  const number = { value: row => row.mean, fitted: row => row.fitted, ratio: row => row.ratio }[show];
  const names = limits.map(([name]) => name), colours = limits.map(([, , colour]) => colour);
  /** @type {ScaleOptions} */
  const color = show === "limit" ? { type: "ordinal", domain: [...names, "none"], range: [...colours, "#e4e4e4"] }
    : show === "ratio" ? { type: "diverging-log", pivot: 1, domain: [.5, 2], clamp: true, scheme: "BuRd", label: "fitted over measured" }
    : { type: "linear", scheme: "viridis", domain: [0, highest], label: "Gbit/s" };
  const fill = show === "limit" ? row => names[row.limit] ?? "none" : number, scale = Plot.scale({ color });
  const half = row => row.high === null || !row.mean ? null : (row.high - row.low) / 2 / row.mean;
  const spread = row => half(row) === null ? "" : `±${d3.format(".0f")(100 * half(row))} %`;
  const mark = (list, about) => Plot.cell(list, { ...at, pointerEvents: "none", ...about });
  const isPale = row => half(row) > .25, paper = getComputedStyle(box).getPropertyValue("--paper");
  const inkOf = row => { const colour = scale.apply(fill(row)); return ink(isPale(row) ? d3.interpolateRgb(paper, colour)(PALE) : colour); };
  const marks = [
    Plot.cell(known, { ...at, fill, fillOpacity: row => isPale(row) ? PALE : 1, ...linked }),
    Plot.cell(rows.filter(row => row.mean === null), { ...at, fill: "url(#none)", ...linked }),
    ...["warning", "invalid"].map((grade, nth) => mark(known.filter(row => row.grade === nth + 2), { fill: `url(#${grade})` })),
    ...written ? [Plot.text(known, { ...channels, y: value(places.y), pointerEvents: "none", fontSize: room < 46 ? 10 : 12, fontWeight: 600, lineHeight: 1.05,
      fill: inkOf, stroke: row => row.grade > 1 ? (inkOf(row) === "#111" ? "#fff" : "#111") : "none", strokeWidth: 2,
      text: row => [[show === "limit" && row.limit >= 0 && room >= 52 ? limits[row.limit][3] : "", { fitted: points.fitted, ratio: points.ratio }[show]?.[row.point] ?? points.value[row.point]].filter(Boolean).join(" "), show === "ratio" || show === "fitted" ? "" : spread(row)].filter(Boolean).join("\n") })] : [],
    tips(rows, { ...channels, y: value(places.y) }),
  ];
  const chart = plot({ ...options, width, height: 80 + rowTexts.length * (up.length * each + 8), marginLeft: left, x: { ...options.x, type: "band", padding: 0 },
    y: { label: label(places.y), type: "band", domain: up, reverse: true, ticks: up.filter((_, nth) => nth % Math.ceil(up.length / SEVERAL) === 0), tickSize: 0, padding: 0, axis: places.y < 0 ? null : "left" }, color, marks }, "group");
  if (show !== "limit") return { chart, legend: [Plot.legend({ ...LEGEND, color, width: 260 })] };
  const seen = d3.rollups(known.filter(row => row.limit >= 0), of => [of.filter(row => row.grade < 2).length, of.filter(row => row.grade > 1).length], row => row.limit).sort((a, b) => d3.sum(b[1]) - d3.sum(a[1]));
  const entry = ([limit, [well, warned]]) => [`${limits[limit][3]} ${limits[limit][0]} (${well}${warned ? ` + ${warned} with a warning` : ""})`, limits[limit][2]];
  const entries = [...seen.map(entry), ...[["with a warning, in no finding", "url(#warning)", known.some(row => row.grade === 2)], ["invalid", "url(#invalid)", known.some(row => row.grade === 3)],
    ["failed or not measured", "url(#none)", rows.some(row => row.mean === null)]].filter(([, , held]) => held).map(([name, fill]) => [name, fill])];
  return { chart, legend: [Plot.legend({ ...LEGEND, color: { type: "ordinal", domain: entries.map(([name]) => name), range: entries.map(([, fill]) => fill) } })] };
}

/** The cell's samples over time: goodput with warm-up, mean, interval and path; CPU with quotas; RTT; retransmits. */
function drawSeries(cell, about, width) {
  const { points: count, step, gap, quantities } = data.series;
  const levels = quantities.map(({ key, label, units, top }, nth) => ({ key, label, units, values: Array.from(series[nth].subarray(cell * count, (cell + 1) * count), (level, at) => ({ time: (at + .5) * step, level, label, value: level / (gap - 1) * amount(top[cell]) })).filter(one => one.level < gap) }));
  if (!count || !levels[0].values.length) return [];
  const end = d3.max(levels, ({ values }) => d3.max(values, one => one.time)) + step / 2;
  /** @type {[string, string[]][]} */
  const groups = [["goodput", ["goodput"]], ["CPU", ["source_cpu", "destination_cpu", "client_cpu"]], ["round-trip time", ["rtt_loaded"]], ["retransmitted segments", ["retransmits"]]];
  return groups.flatMap(([title, keys]) => {
    const held = levels.filter(({ key, values }) => keys.includes(key) && values.length), all = held.flatMap(({ values }) => values);
    if (!held.length) return [];
    const isGoodput = title === "goodput", limit = isGoodput ? about.path : title === "CPU" ? about.quota : null, most = d3.max(all, one => one.value);
    const high = 1.08 * Math.max(most, isGoodput && about.high || 0, limit && limit < 4 * most ? limit : 0) || 1;
    const chart = plot({ ...SERIES, width, height: isGoodput ? 200 : 120,
      x: { domain: [0, end], label: "s", ticks: 6 }, y: { domain: [0, high], label: `${title} (${held[0].units || "1"})`, grid: true, ticks: isGoodput ? 4 : 3 },
      color: { domain: ["goodput", "source", "destination", "client", "RTT", "retransmits"], range: ["var(--accent)", "var(--accent)", "var(--mark)", "var(--soft)", "var(--accent)", "var(--accent)"] },
      ariaLabel: `${title} over ${end.toFixed(0)} s, at most ${d3.format(".3~g")(most)} ${held[0].units}`,
      marks: [
        about.warmup ? Plot.rect([about], { x1: 0, x2: Math.min(end, about.warmup), y1: 0, y2: high, fill: "currentColor", fillOpacity: .1 }) : null,
        isGoodput && about.low !== null ? Plot.rect([about], { x1: about.warmup ?? 0, x2: end, y1: Math.max(0, about.low), y2: Math.min(high, about.high), fill: "var(--mark)", fillOpacity: .25 }) : null,
        isGoodput && about.mean !== null ? Plot.ruleY([about.mean], { stroke: "var(--mark)", strokeWidth: 1.5 }) : null,
        limit && limit <= high ? [Plot.ruleY([limit], { stroke: "currentColor", strokeDasharray: "5 4" }), Plot.text([limit], { y: limit, text: [isGoodput ? "path" : "quota"], frameAnchor: "right", dy: -7 })] : null,
        Plot.line(all, { x: "time", y: "value", z: "label", stroke: "label", strokeWidth: 1.7, className: "line" }),
        Plot.dot(held.filter(({ values }) => values.length === 1).flatMap(({ values }) => values), { x: "time", y: "value", stroke: "label" }),
        Plot.tip(all, Plot.pointerX({ x: "time", y: "value", title: one => `${one.label} ${d3.format(".3~g")(one.value)} ${held[0].units} at ${one.time.toFixed(1)} s` })),
      ] });
    chart.classList.add("series", title.replaceAll(" ", "-"));
    return [...held.length > 1 ? [Plot.legend({ ...LEGEND, color: { type: "ordinal", domain: held.map(({ label }) => label), range: held.map(({ key }) => ({ source_cpu: "var(--accent)", destination_cpu: "var(--mark)", client_cpu: "var(--soft)" })[key]) } })] : [], chart];
  });
}

/** Shares of a cell's time as one bar. @param {number[][]} shares places of limits, and percentages */
function drawShares(shares, width, label) {
  const known = shares.map(([limit, percent]) => ({ limit, percent })), at = Plot.stackX({ x: "percent", order: null });
  return plot({ width, height: 34, margin: 0, ariaLabel: label, x: { axis: null, domain: [0, d3.sum(known, one => one.percent)] }, marks: [
    Plot.barX(known, { ...at, fill: one => limits[one.limit][2], insetRight: 1, title: one => `${limits[one.limit][0]} ${one.percent} %` }),
    Plot.text(known, { ...at, fontSize: 13, fontWeight: 600, text: one => one.percent >= 9 ? limits[one.limit][3] : "", fill: one => ink(limits[one.limit][2]), pointerEvents: "none" }),
  ] });
}

/** Effects of axes as a forest plot: factors with their intervals around 1. @param {Change[]} changes */
function drawEffects(changes, width) {
  const left = Math.min(width / 2.4, 7 * d3.max(changes, one => one.words.length)), ends = changes.flatMap(one => [one.ratio, one.low ?? one.ratio, one.high ?? one.ratio]);
  return plot({ width, height: 46 + 30 * changes.length, marginLeft: left, marginRight: 16, marginBottom: 34, style: { fontSize: "12px" }, ariaLabel: "Factors of the throughput with their intervals; the table has the numbers",
    x: { type: "log", label: "times", domain: [Math.min(.7, .95 * d3.min(ends)), Math.max(1.4, 1.05 * d3.max(ends))], ticks: width < 500 ? 3 : 6, tickFormat: "~g", grid: true }, y: { domain: changes.map(one => one.words), label: null, tickSize: 0, tickFormat: text => left < 7 * text.length ? `${text.slice(0, left / 7 - 1)}…` : text },
    marks: [Plot.ruleX([1], { stroke: "currentColor" }),
      Plot.ruleY(changes.filter(one => one.low !== null), { y: "words", x1: "low", x2: "high", stroke: "var(--accent)", strokeWidth: 2 }),
      Plot.dot(changes, { y: "words", x: "ratio", fill: "var(--accent)", r: 5, title: one => `${one.words}: ${one.text}`, tip: true })] });
}
