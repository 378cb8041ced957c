// The table of all settings that pass the filters.

const FREQUENT = 0.9; // share of settings with a note from which rows do not repeat it

/** Flags that are written once above the table: those of all settings, and frequent notes. */
const shared = flags.filter(flag => shareOf(flag) === 1 || (flag.grade === "note" && shareOf(flag) >= FREQUENT));

function shareOf(flag) {
  return d3.mean(settings, row => Number(flagsOf(row).includes(flag)));
}

function sharedText() {
  const texts = shared.map(flag => {
    const all = shareOf(flag) === 1 ? "All" : `${Math.floor(100 * shareOf(flag))} % of all`;
    return `${all} settings carry the ${flagText(flag)}. `;
  });
  return texts.length ? `${texts.join("")}Rows do not repeat it; the filter by flag finds it.` : "";
}

/** Columns of the table: what they are sorted by, and their texts. */
const COLUMNS = [
  ...several.map(axis => ({
    key: axes[axis].key,
    label: labelOf(axis),
    value: row => row.at[axis],
    text: row => valueOf(row, axis),
  })),
  {
    key: "throughput",
    label: "Gbit/s",
    value: row => row.mean ?? -1,
    text: row => points.value[row.point] ?? data.states[row.state],
  },
  {
    key: "interval",
    label: data.interval,
    value: row => (row.mean ? (row.high - row.low) / row.mean : -1),
    text: intervalOf,
  },
  {
    key: "limit",
    label: "limit",
    value: row => row.limit,
    text: row => limits[row.limit]?.[0] ?? "",
  },
  {
    key: "flags",
    label: "flags",
    value: row => row.grade,
    text: row =>
      flagsOf(row)
        .filter(flag => !shared.includes(flag))
        .map(flag => flag.words)
        .join(", "),
  },
];

/**
 * Head of a column, whose button sorts by it.
 * @param {(typeof COLUMNS)[0]} column
 * @param {string | null} order
 */
function headOf({ key, label }, order) {
  const button = make("button", { type: "button", class: "quiet" }, label);
  button.addEventListener("click", () => {
    go({ sort: `${key} ${order === "up" ? "down" : "up"}` });
    find("table").querySelector(`[data-key="${key}"] button`).focus();
  });
  const sorted = order && (order === "up" ? "ascending" : "descending");
  return make("th", { scope: "col", "data-key": key, "aria-sort": sorted }, button);
}

/** Cells of a row, of which the first one is a link. */
function cellsOfRow(row) {
  const [first, ...others] = COLUMNS.map(column => column.text(row));
  const link = make("a", { href: linkTo(row) }, first);
  return [link, ...others].map((content, at) => make("td", { "data-label": COLUMNS[at].label }, content));
}

function drawTable() {
  const [key, order] = (state.sort ?? "").split(" ");
  const column = COLUMNS.find(one => one.key === key);
  const sign = order === "down" ? -1 : 1;
  const all = filtered();
  if (column) all.sort((a, b) => sign * (column.value(a) - column.value(b)) || a.point - b.point);
  const rows = all.slice(0, mostRows());
  const heads = COLUMNS.map(one => headOf(one, one === column ? order : null));
  find("table").replaceChildren(plainTable(heads, rows.map(cellsOfRow)));
  find("shared").textContent = sharedText();
  find("more").hidden = rows.length === all.length;
  find("more").textContent = `Show more of the ${all.length} settings`;
}

function mostRows() {
  return Number(state.rows ?? ROWS);
}
