// The transfers of a cell, the command that measures it again, and its files.

const { transfers, again } = data;
const causes = new Map(transfers.message);
const starts = [0, ...d3.cumsum(transfers.counts, count => Math.min(count, transfers.most))];

function transferCells(row) {
  const { stream, start, end, rate, ok } = transfers;
  const numbers = [stream, start, end, rate].map(column => make("td", { class: "number" }, `${column[row] ?? ""}`));
  const failure = causes.has(row) ? `failed: ${causes.get(row)}` : "failed";
  return [...numbers, make("td", {}, ok[row] ? "" : failure)];
}

function transfersOf(cell) {
  const count = transfers.counts[cell];
  if (!count) return softText("No single transfers are recorded.");
  const listed = d3.range(starts[cell], starts[cell + 1]);
  const heads = ["stream", "from (s)", "to (s)", "Gbit/s", "outcome"].map(text => make("th", { scope: "col" }, text));
  const table = plainTable(heads, listed.map(transferCells));
  const first = listed.length < count ? `, the first ${listed.length} of them` : "";
  const region = { class: "table", tabindex: 0, role: "region", "aria-label": "transfers" };
  return details(`${count} transfers${first}`, make("div", region, table));
}

/** A word of a command for a shell. @param {string} text */
function quoted(text) {
  return /^[A-Za-z0-9_./=@:,+-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

function copyButton(command) {
  const button = make("button", { type: "button" }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(command);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select and copy it";
    }
  });
  return button;
}

function fileLink(path, text) {
  const href = path.split("/").map(encodeURIComponent).join("/");
  return make("p", {}, make("a", { href }, text));
}

function measuredAgain(cell) {
  if (!again?.cell[cell]) return [];
  const place = again.deployment[cell];
  const deployment = again.deployments[place];
  const file = `${deployment}/${again.cell[cell]}.json`;
  const command = `rm -f ${quoted(`${again.folder}/${file}`)} && ${again.command}`;
  const shown = make("pre", { tabindex: 0, "aria-label": "command" }, command);
  return [
    details("Measure it again", shown, copyButton(command)),
    again.logs[place] && fileLink(`logs/${deployment}/`, "logs of its deployment"),
    again.files[cell] && fileLink(`cells/${file}`, "the cell's file"),
  ];
}
