// Asks for the history of one key, when somebody wants it. All text goes into the page as text, never as markup.

import { find, make, utc } from "/page.js";

const PATIENCE_MS = 120000;

function value(shown) {
  if (shown === null) return make("span", { class: "soft" }, "not there");
  const until = shown.expire_ms === null ? "" : `, until ${utc(shown.expire_ms)}`;
  return make("span", {}, make("span", { class: "soft" }, `${shown.type}${until} `), make("code", {}, shown.value));
}

function row(event) {
  const who = [event.id === null ? "" : `id ${event.id}`, event.meta === null ? "" : event.meta].filter(Boolean).join(" · ");
  const outcome = make("td", { role: "cell", "data-label": "Outcome" }, `${event.outcome}: ${event.reply}`);
  const values = make("td", { role: "cell", "data-label": "Value" });
  if (event.changed) values.append(make("div", {}, value(event.before)), make("div", {}, "→ ", value(event.after)));
  else values.append(make("span", { class: "soft" }, "as it was"));
  return make("tr", { role: "row" },
    make("th", { role: "rowheader", scope: "row" }, String(event.offset)),
    make("td", { role: "cell", "data-label": "Time" }, utc(event.time_ms)),
    make("td", { role: "cell", "data-label": "Command" }, make("code", {}, event.command), ...(who ? [make("div", { class: "soft" }, who)] : [])),
    outcome,
    values);
}

function show(events, said) {
  find("line").tBodies[0].replaceChildren(...events.map(row));
  find("line").hidden = events.length === 0;
  find("line-said").textContent = said;
}

async function ask(key, db) {
  show([], "The log is read …");
  try {
    const response = await fetch("/history", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ key, db }),
      cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS),
    });
    const answer = await response.json();
    if (answer.error) show([], answer.error);
    else show(answer.events, answer.events.length ? "" : "No event has named or changed this key.");
  } catch (error) {
    show([], error.name === "TimeoutError" ? `Nothing within ${PATIENCE_MS / 1000} s.` : "No answer.");
  }
}

find("history-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = find("history-form").querySelector("button");
  button.disabled = true;
  await ask(find("history-key").value, Number(find("history-db").value));
  button.disabled = false;
});
