"use strict";
// All that the pages do by themselves. Without it they work too, with a reload for each step.

const lost = () => document.getElementById("lost");
const LOST = lost() ? lost().textContent : "";
const say = (text) => { const box = lost(); if (box) { box.textContent = text; box.hidden = false; } };

// A form whose request never arrived keeps what was typed, and says so.
document.addEventListener("htmx:sendError", () => say(LOST));
document.addEventListener("htmx:timeout", () => say(LOST));
// What was refused stays said until a form is sent again; a list of cities that comes late hides it not.
document.addEventListener("htmx:beforeOnLoad", (event) => {
  const box = lost();
  if (box && (event.detail.requestConfig.verb === "post" || box.textContent === LOST)) box.hidden = true;
});

// So does one that was refused unread: of a console that was started again meanwhile, or too large.
document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.detail.xhr.status < 400) return;
  const answer = new DOMParser().parseFromString(event.detail.serverResponse, "text/html").querySelector("[data-refused]");
  if (!answer) return;
  event.detail.shouldSwap = false;
  if (answer.dataset.token) for (const each of document.getElementsByName("form-token")) each.value = answer.dataset.token;
  say([...answer.querySelectorAll("h1, p")].map((each) => each.textContent).join(". ").replace(/([.:])\. /g, "$1 ") + " What you typed is still here.");
});

// After a form was answered, whoever reads by ear or by keyboard begins where the answer does.
document.addEventListener("htmx:afterSettle", (event) => {
  if (event.detail.boosted) {
    const told = document.querySelector("main [role=alert], main [role=status], main [data-told]") || document.getElementById("main");
    if (!told.hasAttribute("tabindex")) told.setAttribute("tabindex", "-1");
    told.focus();
  }
});

// An answer, or the first field of a form, has the focus, so that the next Tab leads to what can be done with it.
document.addEventListener("DOMContentLoaded", () => {
  const first = document.querySelector("[data-first]");
  if (!first || location.hash) return;
  if (first.tabIndex < 0) first.setAttribute("tabindex", "-1");
  first.focus({ preventScroll: true });
});

// What comes in afterwards takes the focus along, if that was in what it replaces.
let held = false;
document.addEventListener("htmx:beforeSwap", (event) => { held = !event.detail.boosted && event.detail.target !== document.body && event.detail.target.contains(document.activeElement) && event.detail.target.matches("[hx-trigger=load], :has([hx-trigger=load])"); });
document.addEventListener("htmx:afterSettle", (event) => {
  if (event.detail.boosted || !held) return;
  held = false;
  const told = event.detail.elt.querySelector("h1, h2, h3, [role=status]") || event.detail.elt;
  told.setAttribute("tabindex", "-1");
  told.focus();
});

// A double click sends a form once. Those that htmx sends disable their buttons meanwhile.
document.addEventListener("submit", (event) => {
  const sent = event.target;
  if (sent.method !== "post" || sent.hasAttribute("hx-boost")) return;
  if (sent.dataset.sent) event.preventDefault();
  sent.dataset.sent = "yes";
});
window.addEventListener("pageshow", () => { for (const each of document.forms) delete each.dataset.sent; });

// A file that is dropped anywhere is as if it had been chosen.
for (const each of document.querySelectorAll("[data-drop-hint]")) each.hidden = false;
const form = () => document.querySelector("form[data-drop]");
for (const name of ["dragenter", "dragover"]) {
  document.addEventListener(name, (event) => {
    if (!form() || !event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    document.body.classList.add("over");
  });
}
document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) document.body.classList.remove("over"); });
document.addEventListener("drop", (event) => {
  if (!form() || !event.dataTransfer.files.length) return;
  event.preventDefault();
  document.body.classList.remove("over");
  form().querySelector("input[type=file]").files = event.dataTransfer.files;
  form().requestSubmit();
});

// A city is picked in a combobox: the arrows choose, Enter or a click takes it, which fills in the fields of its place.
const cities = () => document.querySelector("[data-offers]");
const list = () => document.getElementById("offers");
const choose = (option) => {
  for (const each of list().children) each.setAttribute("aria-selected", String(each === option));
  cities().setAttribute("aria-expanded", String(list().children.length > 0));
  if (option) { cities().setAttribute("aria-activedescendant", option.id); option.scrollIntoView({ block: "nearest" }); }
  else cities().removeAttribute("aria-activedescendant");
};
const shut = () => { list().replaceChildren(); choose(null); };
const pick = (option) => {
  const inputs = cities().form.elements;
  for (const [name, text] of Object.entries(JSON.parse(option.dataset.fill))) if (inputs[name]) inputs[name].value = text;
  inputs.latitude.dispatchEvent(new Event("input", { bubbles: true })); // the tab remembers it
  shut();
};
document.addEventListener("htmx:load", () => {
  if (!cities() || cities().role) return;
  Object.assign(cities(), { role: "combobox", ariaAutoComplete: "list", ariaExpanded: "false" });
  cities().setAttribute("aria-controls", "offers");
  list().setAttribute("role", "listbox");
  cities().addEventListener("blur", shut);
  cities().addEventListener("keydown", (event) => {
    const options = [...list().querySelectorAll("[data-fill]")];
    const at = options.findIndex((each) => each.ariaSelected === "true");
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && options.length) choose(options[(at + step + options.length + (at < 0 && step < 0 ? 1 : 0)) % options.length]);
    else if (event.key === "Enter" && at >= 0) pick(options[at]);
    else if (event.key === "Escape" && options.length) shut();
    else return;
    event.preventDefault();
  });
  list().addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus
  list().addEventListener("click", (event) => { const option = event.target.closest("[data-fill]"); if (option) pick(option); });
});
document.addEventListener("htmx:afterSwap", (event) => {
  if (event.target !== list()) return;
  if (document.activeElement === cities()) choose(null);
  else shut(); // whoever left the field wants no list
});

// A field of one line would make blanks of the line ends of a list, and a range of two bullets.
document.addEventListener("paste", (event) => {
  const text = event.clipboardData?.getData("text").trim() ?? "";
  if (event.target.id !== "q" || !/[\r\n]/.test(text)) return;
  event.preventDefault();
  event.target.setRangeText(text.replace(/\s*[\r\n]+\s*/g, "; "), event.target.selectionStart, event.target.selectionEnd, "end");
});

// A text that no address can hold goes as a file, which is read in the same way.
document.addEventListener("submit", (event) => {
  const asked = event.target.elements.q?.value ?? "";
  if (!form() || encodeURIComponent(asked).length < 4000) return;
  event.preventDefault();
  const made = new DataTransfer();
  made.items.add(new File([asked.replaceAll("; ", "\n")], "what you pasted"));
  form().querySelector("input[type=file]").files = made.files;
  form().requestSubmit();
});

// Back keeps what was typed: no page is stored, so the tab remembers the fields of its forms.
const typed = () => `typed ${location.pathname}${location.search.replace(/[?&]told=[^&]*$/, "")}`;
const inputs = () => [...document.querySelectorAll("form[method=post] :is(input, textarea)")].filter((each) => !["hidden", "file", "radio", "checkbox"].includes(each.type));
const back = () => {
  const kept = JSON.parse(sessionStorage.getItem(typed()) || "{}");
  for (const each of inputs()) if (each.name in kept) each.value = kept[each.name];
};
document.addEventListener("input", (event) => {
  if (!event.target.closest("form[method=post]")) return;
  sessionStorage.setItem(typed(), JSON.stringify(Object.fromEntries(inputs().map((each) => [each.name, each.value]))));
});
if (performance.getEntriesByType("navigation").some((each) => each.type === "back_forward") || new URLSearchParams(location.search).has("told")) back();

// Times in the zone of whoever reads them, which the foot of the page names. Each keeps what programs read in its datetime.
const two = (number) => String(number).padStart(2, "0");
document.addEventListener("htmx:load", () => {
  for (const each of document.querySelectorAll("time")) {
    const at = new Date(each.dateTime);
    each.textContent = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}${each.textContent.length > 16 ? `:${two(at.getSeconds())}` : ""}`;
  }
  document.getElementById("zone").textContent = Intl.DateTimeFormat().resolvedOptions().timeZone;
});
