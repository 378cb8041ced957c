// What the page shows, as the part of its address after #, so that every view and every cell has a link.

const ROWS = 100; // of the table, at first

/** @type {Record<string, string>} */
let state = {};

/** What is drawn again after a change of that part of the state alone. */
const PARTS = { cell: openCell, repetition: openCell, sort: drawTable, rows: drawTable, finding: outline };

function readState() {
  const address = location.hash.slice(1).replaceAll("+", "%2B");
  state = Object.fromEntries(new URLSearchParams(address));
}

/** Change the state, and draw what shows it; null and "" remove a part. @param {Record<string, any>} changes */
function go(changes) {
  for (const [key, value] of Object.entries(changes)) {
    if (value === null || value === "") delete state[key];
    else state[key] = `${value}`;
  }
  const parts = Object.entries(state).map(([key, value]) => `${key}=${encoded(value)}`);
  history.replaceState(null, "", `#${parts.join("&")}`);
  const [part, ...others] = new Set(Object.keys(changes).map(key => PARTS[key] ?? drawAll));
  if (others.length) drawAll();
  else part();
}

/** A text in an address, whose commas stay readable. @param {string} text */
function encoded(text) {
  return text.split(",").map(encodeURIComponent).join(",");
}

function linkTo(row) {
  return `#cell=${encoded(row.address)}`;
}

/** @typedef {ReturnType<typeof places>} Places */

/** The axes that are across, up or lines, and in columns of panels, or -1; panels of all others are in rows. */
function places() {
  const placed = key => (key in state ? axisOf(state[key]) : data[key]);
  const [x, y, columns] = ["x", "y", "columns"].map(placed);
  return { x, y, columns, rest: several.filter(axis => ![x, y, columns].includes(axis)) };
}

function axisOf(key) {
  return axes.findIndex((axis, at) => axis.key === key && several.includes(at));
}

function view() {
  return data.views.find(one => one.key === state.view) ?? data.views[0];
}

/** The chosen setting: at first one without a warning that is within 2 % of the highest throughput. */
function chosen() {
  const worth = row => Math.round((50 * (row.mean ?? -1)) / highest) - (isDoubtful(row) ? 1e6 : 0);
  return byAddress.get(state.cell) ?? d3.greatest(settings, worth);
}

/** The settings that pass the filters. */
function filtered() {
  const held = several.filter(axis => filterOf(axis) in state);
  const flag = flags.find(one => one.words === state.flag);
  const passes = row => (flag ? flagsOf(row).includes(flag) : !isDoubtful(row));
  return settings.filter(
    row =>
      held.every(axis => valueOf(row, axis) === state[filterOf(axis)]) &&
      (!state.limit || limits[row.limit]?.[0] === state.limit) &&
      (!state.flag || passes(row)),
  );
}

/** Part of the state that filters by an axis. */
function filterOf(axis) {
  return `only.${axes[axis].key}`;
}
