// Panels of a picture: columns for the values of one axis, rows for those of all others, titles at the margins.

const LEFT = 60; // px, of labels at the left of panels, about
const REACH = 25; // px, within which the setting nearest to the pointer has a tip, and opens by a press

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

/** Layout that both pictures share. @param {Setting[]} rows @param {AxesInPlaces} axesAt */
function panels(rows, { x, columns, rest }, width) {
  const down = row => (rest.length === 1 ? valueOf(row, rest[0]) : named(row, rest));
  const across = valuesIn(rows, x);
  const columnTexts = valuesIn(rows, columns);
  const rowTexts = [...d3.union(rows.map(down))];
  const right = rest.length ? Math.max(24, Math.min(width / 4, widest(rowTexts))) + 22 : 8;
  const fx = columns >= 0 && { label: labelOf(columns), domain: columnTexts, padding: 0.06 };
  const fy = rest.length > 0 && { label: labelOf(rest.length === 1 ? rest[0] : -1), domain: rowTexts, padding: 0.06 };
  const names = axes[x]?.words ?? false;
  const room = (width - LEFT - right) / columnTexts.length; // px of a panel
  const isUpright = names && widest(across) + LETTER > room / across.length;
  const most = names ? Math.floor(room / 10) : width < 600 ? 6 : SEVERAL;
  const ticks = thinned(across, Math.max(1, most));
  const [above, below] = [fx ? 42 : 14, isUpright ? widest(ticks) + 30 : 38];
  const facets = { ...(fx && { fx: channelOf(columns) }), ...(fy && { fy: down }) };
  return {
    across,
    right,
    columnCount: columnTexts.length,
    rowCount: rowTexts.length,
    facets,
    channels: { x: channelOf(x), ...facets },
    margins: above + below,
    x: { label: labelOf(x), domain: across, ticks, tickSize: 3, tickRotate: isUpright ? -90 : 0 },
    options: {
      ariaLabel: `Throughput, ${data.views[state.view]}`,
      marginTop: above,
      marginRight: right,
      marginBottom: below,
      ...(fx && { fx }),
      ...(fy && { fy }),
    },
  };
}

/** Tips of settings or links near the pointer; a press goes through them. */
function tips(rows, channels) {
  return Plot.tip(rows, Plot.pointer({ title: describe, ...channels, maxRadius: REACH, pointerEvents: "none" }));
}
