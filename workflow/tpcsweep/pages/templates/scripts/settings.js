"use strict";
// The data of the page, and its settings: each is a cell with all its repetitions.

/** @type {PageData} */
const data = JSON.parse(document.getElementById("data").textContent);
const { axes, cells, points, flags, limits } = data;

const sizes = axes.map(axis => axis.values.length);
const repeated = axes.findIndex(axis => axis.repetition); // -1 without repetitions
const several = d3.range(axes.length).filter(axis => sizes[axis] > 1 && axis !== repeated);

const pointSizes = sizes.map((size, axis) => (axis === repeated ? 1 : size));
const cellStrides = strides(sizes);
const pointStrides = strides(pointSizes);

/** Distances of neighbours along each axis in a flattened grid. @param {number[]} shape */
function strides(shape) {
  return shape.map((_, axis) => shape.slice(axis + 1).reduce((product, size) => product * size, 1));
}

/** @param {number[]} at place on each axis @param {number[]} distances of neighbours on each axis */
function flattened(at, distances) {
  return d3.sum(at, (place, axis) => place * distances[axis]);
}

/** The value of a number's text; numbers are rounded in texts only. @param {string | null} text */
function amount(text) {
  if (text === null) return null;
  const exponent = sign => "-0123456789"["⁻⁰¹²³⁴⁵⁶⁷⁸⁹".indexOf(sign)];
  return Number(text.replace("×10", "e").replace(/[⁻⁰¹²³⁴-⁹]/g, exponent));
}

/** @typedef {ReturnType<typeof settingOf>} Setting */

/** @param {number} point */
function settingOf(point) {
  const at = pointStrides.map((distance, axis) => Math.floor(point / distance) % pointSizes[axis]);
  return {
    point,
    at,
    address: several.map(axis => axes[axis].values[at[axis]]).join(","),
    mean: amount(points.value[point]),
    low: amount(points.low[point]),
    high: amount(points.high[point]),
    path: amount(points.path[point]),
    quota: amount(points.quota[point]),
    fitted: points.fitted ? amount(points.fitted[point]) : null,
    ratio: points.ratio ? amount(points.ratio[point]) : null,
    limit: points.limit[point],
    grade: points.grade[point],
    state: points.state[point],
  };
}

const grid = d3.range(points.value.length).map(settingOf);
const settings = grid.filter(isInside);
const byAddress = new Map(settings.map(row => [row.address, row]));
const highest = d3.max(grid, row => Math.max(row.mean ?? 0, row.fitted ?? 0)) || 1; // a scale needs a length

/** Whether a setting is part of the sweep; the last state says that it is not. */
function isInside(row) {
  return row.state < data.states.length - 1;
}

/** Number of a setting's cell in the columns of cells. */
function cellOf(row, repetition) {
  const at = row.at.map((place, axis) => (axis === repeated ? repetition : place));
  return flattened(at, cellStrides);
}

function cellsOf(row) {
  return d3.range(repeated < 0 ? 1 : sizes[repeated]).map(repetition => cellOf(row, repetition));
}

function flagsOf(row) {
  if (row.grade === 0) return [];
  return flags.filter(flag => cellsOf(row).some(cell => cells.flags[cell] & flag.mask));
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

function named(row) {
  return several.map(axis => `${labelOf(axis)} ${valueOf(row, axis)}`).join(", ");
}

/** Both ends of an interval, or "" if it is unknown or a single number. @param {string} low @param {string} high */
function between(low, high) {
  if (low === null || high === null || low === high) return "";
  return `${amount(low) < 0 ? "0" : low} to ${high}`;
}

function intervalOf(row) {
  return between(points.low[row.point], points.high[row.point]);
}

function flagText(flag) {
  return `${flag.grade}: ${flag.words}`;
}

/** Lines about a setting, for a tip and for a screen reader. */
function describe(row) {
  const mean = points.value[row.point];
  const interval = intervalOf(row);
  const lines = [
    named(row),
    mean === null ? data.states[row.state] : `${mean} Gbit/s${interval && ` (${interval})`}`,
    row.limit >= 0 ? `limited by ${limits[row.limit][0]}` : "",
    row.fitted !== null ? `fitted ${points.fitted[row.point]} Gbit/s` : "",
    ...flagsOf(row).map(flagText),
  ];
  return lines.filter(Boolean).join("\n");
}
