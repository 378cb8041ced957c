// What the page shows, as the part of its address after #, so that every view and every cell has a link.

const ROWS = 100; // of the table, at first
const PLACES = ["x", "y", "columns"]; // of axes in the picture; panels of all others are in rows

/** @type {Record<string, any>} */
let state = {};

/** What is drawn again after a change of that part of the state alone. */
const PARTS = { cell: openCell, repetition: openCell, sort: drawTable, rows: drawTable, finding: drawFinding };

function readState() {
  const address = location.hash.slice(1).replaceAll("+", "%2B");
  state = { ...data.start, ...Object.fromEntries(new URLSearchParams(address)) };
  if (!(state.view in data.views)) state.view = data.start.view;
}

/** Change the state, and draw what shows it; null and "" reset a part. @param {Record<string, any>} changes */
function go(changes) {
  for (const [key, value] of Object.entries(changes)) state[key] = value || data.start[key];
  const chosenParts = Object.entries(state).filter(([key, value]) => value !== data.start[key]);
  const texts = chosenParts.map(([key, value]) => `${key}=${encoded(`${value}`)}`);
  history.replaceState(null, "", `#${texts.join("&")}`);
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

/** Show the state in the forms. */
function fillForms() {
  for (const box of [...find("choices").elements, ...find("filters").elements]) {
    if (box.type === "radio") box.checked = box.value === state[box.name];
    else box.value = state[box.name] ?? "";
  }
}

/**
 * A choice in a form changes the part of the state with its name. An axis has one place, and a filter ends a finding.
 * @param {Event} event
 */
function choose({ target }) {
  const { name, value, form } = /** @type {HTMLSelectElement} */ (target);
  if (form === find("filters")) {
    go({ [name]: value, finding: null });
    return;
  }
  const other = PLACES.includes(name) && PLACES.find(place => place !== name && state[place] === value);
  if (!other || value === "none") go({ [name]: value });
  else if (other === "x" && state[name] === "none") go({ [name]: value, x: axes.find(({ key }) => key !== value).key });
  else go({ [name]: value, [other]: state[name] });
}

/** @typedef {ReturnType<typeof axesInPlaces>} AxesInPlaces */

/** The axes that are across, up or lines, and in columns of panels, or -1, and all others. */
function axesInPlaces() {
  const [x, y, columns] = PLACES.map(place => axes.findIndex(({ key }) => key === state[place]));
  return { x, y, columns, rest: d3.range(axes.length).filter(axis => ![x, y, columns].includes(axis)) };
}

/** The chosen setting: at first one without a warning that is within 2 % of the highest throughput. */
function chosen() {
  const worth = row => Math.round((50 * (row.mean ?? -1)) / highest) - (isDoubtful(row) ? 1e6 : 0);
  return byAddress.get(state.cell) ?? d3.greatest(settings, worth);
}

/** The buttons of findings. @returns {HTMLButtonElement[]} */
function buttons() {
  return [...document.querySelectorAll(/** @type {"button"} */ (".findings button[value]"))];
}

/** The points of the chosen finding's settings, or null. */
function ofFinding() {
  const button = buttons().find(({ value }) => value === state.finding);
  return button ? new Set(button.dataset.settings.split(" ").map(Number)) : null;
}

/** The settings that pass the filters, each of which is a part of the state. */
function filtered() {
  const wanted = flags.findIndex(({ words }) => words === state.flag);
  const isGood = row => row.mean !== null && !isDoubtful(row);
  const passes = row => (wanted < 0 ? isGood(row) : row.flags.some(({ flag }) => flag === wanted));
  const wantedOn = axis => state[`only.${axes[axis].key}`];
  return settings.filter(
    row =>
      row.at.every((_, axis) => !wantedOn(axis) || wantedOn(axis) === valueOf(row, axis)) &&
      (!state.limit || limits[row.limit]?.name === state.limit) &&
      (!state.flag || passes(row)),
  );
}
