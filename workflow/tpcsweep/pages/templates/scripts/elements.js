// Elements of the page. Texts of data are set as text, never as HTML.

function find(id) {
  return /** @type {any} */ (document.getElementById(id));
}

/**
 * An element with attributes and content; null and false stand for no attribute and no content.
 * @param {Record<string, any>} about @param {...any} within
 */
function make(name, about = {}, ...within) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(about)) {
    if (value !== null && value !== false) element.setAttribute(key, value);
  }
  element.append(...given(within));
  return element;
}

/** Content without what is absent. @param {any[]} content */
function given(content) {
  return content.flat().filter(one => one !== null && one !== undefined && one !== false);
}

/** A table of texts and elements. @param {any[]} heads cells of its head @param {any[][]} rows */
function plainTable(heads, rows) {
  const head = heads.length > 0 && make("thead", {}, make("tr", {}, heads));
  const body = make("tbody", {}, ...rows.map(row => make("tr", {}, row)));
  return make("table", { class: "plain" }, head, body);
}

/** What a person opens by its summary. */
function details(summary, ...within) {
  return make("details", {}, make("summary", {}, summary), ...within);
}

/** A select that changes a part of the state. @param {string[][]} options values and texts */
function select(key, label, options, value, title = "") {
  const choices = options.map(([one, text]) => make("option", { value: one, selected: one === value && "" }, text));
  const box = make("select", { name: key }, choices);
  box.addEventListener("change", () => {
    go({ [key]: box.value });
    // The select was made again.
    document.querySelector(`[name="${CSS.escape(key)}"]`)?.["focus"]();
  });
  return make("label", { title: title || null }, label, box);
}
