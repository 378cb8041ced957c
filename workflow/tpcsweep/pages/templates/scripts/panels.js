// Panels of a picture: columns for the values of one axis, rows for those of all others, titles at the margins.

/** Makes a mark of a setting a link, with a label for screen readers. */
const LINKED = { href: linkTo, ariaLabel: describe };

/** Values of an axis that rows have. @param {Setting[]} rows */
function valuesIn(rows, axis) {
  if (axis < 0) return [""];
  const held = new Set(rows.map(row => row.at[axis]));
  return axes[axis].values.filter((_, at) => held.has(at));
}

/** A channel of a mark: the text of each setting's value on an axis. */
function channelOf(axis) {
  return row => (axis < 0 ? "" : valueOf(row, axis));
}

/** Every nth value, so that their labels have room. */
function thinned(values, most) {
  const every = Math.ceil(values.length / most);
  return values.filter((_, at) => at % every === 0);
}

/** Layout that both pictures share. @param {Setting[]} rows @param {Places} axesAt */
function panels(rows, { x, columns, rest }, width) {
  const [alone] = rest.length === 1 ? rest : [-1];
  const down = row =>
    alone >= 0 ? valueOf(row, alone) : rest.map(axis => `${labelOf(axis)} ${valueOf(row, axis)}`).join(", ");
  const across = valuesIn(rows, x);
  const columnTexts = valuesIn(rows, columns);
  const rowTexts = rest.length ? [...new Set(rows.map(down))] : [""];
  const right = rest.length ? Math.max(24, Math.min(width / 4, widest(rowTexts))) + 22 : 8;
  const fx = columns >= 0 && { label: labelOf(columns), domain: columnTexts, padding: 0.06 };
  const fy = rest.length > 0 && { label: labelOf(alone), domain: rowTexts, padding: 0.06 };
  const ticks = thinned(across, width < 600 ? 6 : SEVERAL);
  return {
    across,
    right,
    columnCount: columnTexts.length,
    rowCount: rowTexts.length,
    facets: { ...(fx && { fx: channelOf(columns) }), ...(fy && { fy: down }) },
    channels: { x: channelOf(x), ...(fx && { fx: channelOf(columns) }), ...(fy && { fy: down }) },
    x: { label: labelOf(x), domain: across, ticks, tickSize: 3 },
    options: { marginTop: fx ? 42 : 14, marginRight: right, marginBottom: 38, ...(fx && { fx }), ...(fy && { fy }) },
  };
}

/** Tips of settings near the pointer. */
function tips(rows, channels) {
  // A press goes to the point below the tip.
  return Plot.tip(rows, Plot.pointer({ ...channels, title: describe, maxRadius: 25, pointerEvents: "none" }));
}
