// Answers to "Which setting reaches a target?", from plans that the page contains.

const { plans } = data;

/**
 * Show the answer for the form's target and RTT. A table of plans has the settings for an RTT, cheapest first, each of
 * which is sure to reach more than all cheaper ones.
 */
function answer() {
  const { elements } = find("plan");
  const target = Number(elements.target.value);
  const rtt = Number(elements.rtt.value);
  find("planned").replaceChildren(...answerTo(target, rtt, elements));
}

/** @param {number} target Gbit/s @param {number} rtt ms */
function answerTo(target, rtt, elements) {
  if (!(target > 0) || !(rtt >= 0)) return ["Type a throughput in Gbit/s and an RTT in ms."];
  const at = plans.rtts.findIndex(known => known >= rtt);
  if (at < 0) return [`The data end at an RTT of ${plans.rtts.at(-1)} ms: tpcsweep plan extrapolates.`];
  const chosenOf = nth => Number(elements[`other${nth}`].value);
  const place = plans.others.reduce((sum, other, nth) => sum * other.values.length + chosenOf(nth), 0);
  const table = place * plans.rtts.length + at;
  const rows = plans.tables[table];
  if (!rows.length) return ["The model has no prediction for this RTT."];
  const sure = `reached with a probability of ${plans.probability}`;
  const where = `at RTT ${plans.rtts[at]} ms`;
  const best = rows.find(row => row.most >= target);
  if (best) return sentence(best.setting, ` ${where}: ${best.assured} Gbit/s is ${sure}; expected ${best.expected}.`);
  const { assured, setting } = rows.at(-1);
  const most = `: ${assured} Gbit/s at most, with ${setting}, ${where}. ${plans.measured[table]}`;
  return sentence(`Not ${sure} by any setting inside the data`, most);
}

function sentence(strong, text) {
  return [make("p", {}, make("strong", {}, strong), text)];
}
