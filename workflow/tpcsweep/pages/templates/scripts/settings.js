"use strict";
// The data of the page, and its settings: each is all its repetitions as one.

/** @type {PageData} */
const data = JSON.parse(document.getElementById("data").textContent);
const { axes, cells, points, flags, limits, repetitions } = data;

function find(id) {
  return /** @type {any} */ (document.getElementById(id));
}

/** The value of a number's text; numbers are rounded in texts only. @param {string | null | undefined} text */
function amount(text) {
  if (text === null || text === undefined) return null;
  const exponent = sign => "-0123456789"["⁻⁰¹²³⁴⁵⁶⁷⁸⁹".indexOf(sign)];
  return Number(text.replace("×10", "e").replace(/[⁻⁰¹²³⁴-⁹]/g, exponent));
}

/** @typedef {ReturnType<typeof settingOf>} Setting */

/** @param {number[]} at place on each axis @param {number} point */
function settingOf(at, point) {
  return {
    point,
    at,
    address: axes.map((axis, nth) => axis.values[at[nth]]).join(","),
    mean: amount(points.value[point]),
    low: amount(points.low[point]),
    high: amount(points.high[point]),
    half: amount(points.half[point]),
    path: amount(points.path[point]),
    quota: amount(points.quota[point]),
    fitted: amount(points.fitted?.[point]),
    ratio: amount(points.ratio?.[point]),
    limit: points.limit[point],
    second: points.second[point],
    grade: points.grade[point],
    state: points.state[point],
    flags: points.flags.sets[points.flags.at[point]],
  };
}

/** Places on the axes of every point, in the order of the columns of points. */
const places = axes.reduce(
  (all, { values }) => d3.cross(all, d3.range(values.length), (at, place) => [...at, place]),
  /** @type {number[][]} */ ([[]]),
);
const grid = places.map(settingOf);
const settings = grid.filter(row => row.state < data.states.length - 1); // the last state is outside of the sweep
const byAddress = new Map(settings.map(row => [row.address, row]));
const highest = d3.max(grid, row => Math.max(row.mean ?? 0, row.fitted ?? 0)) || 1; // a scale needs a length

/** Number of a setting's cell in the columns of cells. */
function cellOf(row, repetition) {
  return row.point * repetitions.length + repetition;
}

function cellsOf(row) {
  return repetitions.map((_, repetition) => cellOf(row, repetition));
}

function isDoubtful(row) {
  return row.grade > 1;
}

// ---- texts

/** Text of a setting's value on an axis. */
function valueOf(row, axis) {
  return axes[axis].values[row.at[axis]];
}

function labelOf(axis) {
  return axis < 0 ? null : axes[axis].label;
}

/** The values of a setting on some axes, with their names. @param {number[]} some places of axes */
function named(row, some = d3.range(axes.length)) {
  return some.map(axis => `${labelOf(axis)} ${valueOf(row, axis)}`).join(", ");
}

/** Mean throughput, or why there is none. */
function rateOf(row) {
  return points.value[row.point] ?? data.states[row.state];
}

/** Both ends of an interval, or "" if it is unknown or a single number. @param {Rates} rates */
function intervalOf({ low, high }, at) {
  return low[at] === null || high[at] === null || low[at] === high[at] ? "" : `${low[at]} to ${high[at]}`;
}

/** @param {number} limit its place */
function limitColour(limit) {
  return isDark() ? limits[limit].on_dark : limits[limit].colour;
}

/** Lines about a setting, for a tip and for a screen reader. */
function describe(row) {
  const interval = intervalOf(points, row.point);
  const lines = [
    named(row),
    row.mean === null ? rateOf(row) : `${rateOf(row)} Gbit/s${interval && ` (${interval})`}`,
    row.limit >= 0 ? `limited by ${limits[row.limit].name}` : "",
    row.fitted !== null ? `fitted ${points.fitted[row.point]} Gbit/s` : "",
    ...row.flags.map(({ flag, share }) => `${flags[flag].grade}: ${flags[flag].words}${share}`),
  ];
  return lines.filter(Boolean).join("\n");
}
