// Eyes of an outsider: functions for every page that a test visits.
window.outsider = {
  /** Values of a program that are no text for people: in visible text, and in attributes that draw or that are read out. */
  slips(root) {
    const slip = /\b(NaN|nan|undefined|null|None|Infinity|inf)\b|\[object |×10nan/;
    const read = ["alt", "aria-label", "class", "href", "id", "style", "title", "value"];
    const found = root.innerText.split("\n").filter(line => slip.test(line));
    for (const element of [root, ...root.querySelectorAll("*")])
      for (const { name, value } of element.attributes)
        if ((element instanceof SVGElement || read.includes(name)) && slip.test(value)) found.push(`${element.localName} ${name}="${value}"`);
    return [...new Set(found)].map(text => text.slice(0, 200));
  },
  /** Choose every cell of the map, with each of its repetitions: its number, whether its chart has a line, and slips. */
  cells() {
    const panel = document.getElementById("cell");
    const seen = (cell, repetition) => {
      const line = panel.querySelector("svg .line");
      return { cell, repetition, drawn: line ? line.getTotalLength() > 0 : null, slips: this.slips(panel),
        without: /No time series/.test(panel.innerText) };
    };
    return [...document.querySelectorAll(".map td[data-cell]:not(.outside)")].flatMap(td => {
      td.click();
      const cell = Number(td.dataset.cell), count = panel.querySelectorAll("select option").length;
      return Array.from({ length: Math.max(1, count) }, (_, repetition) => {
        if (count) {
          panel.querySelector("select").value = repetition;
          panel.querySelector("select").dispatchEvent(new Event("change"));
        }
        return seen(cell, repetition);
      });
    });
  },
};
