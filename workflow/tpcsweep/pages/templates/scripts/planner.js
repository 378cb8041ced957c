// Answers to "Which setting reaches a target?", from plans that the page contains.

const { plans } = data;

/** Show the answer for the target in Gbit/s, the RTT in ms and the other values of the form. */
function answer() {
  const form = new FormData(find("plan"));
  const { setting, text } = answerTo(Number(form.get("target")), Number(form.get("rtt")), form.getAll("other"));
  find("planned").querySelector("strong").textContent = setting;
  find("planned").querySelector("span").textContent = text;
}

/** A table has the settings for an RTT, cheapest first, each of which is sure to reach more than all cheaper ones. */
function answerTo(target, rtt, others) {
  if (!(target > 0) || !(rtt >= 0)) return { setting: "", text: "Type a throughput in Gbit/s and an RTT in ms." };
  const at = plans.rtts.findIndex(known => known >= rtt);
  if (at < 0) return { setting: "", text: plans.beyond };
  const place = others.reduce((sum, value, nth) => sum * plans.others[nth].values.length + Number(value), 0);
  const table = plans.tables[place * plans.rtts.length + at];
  return table.plans.find(({ most }) => most >= target) ?? table.otherwise;
}
