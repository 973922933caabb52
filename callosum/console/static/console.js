// @ts-check
// Keeps the page current and adds keys. The page works without it.

const live = document.getElementById("live")?.dataset.live;
const policy = /** @type {any} */ (globalThis).trustedTypes?.createPolicy("callosum", { createHTML: (/** @type {string} */ text) => text });

/** @param {string} html @returns {Element | null} */
function parsed(html) {
  const page = new DOMParser().parseFromString(policy ? policy.createHTML(html) : html, "text/html");
  return page.body.firstElementChild;
}

// --- ages -------------------------------------------------------------------------------------------

/** @param {number} seconds */
function ago(seconds) {
  if (seconds < 1) return "just now";
  for (const [unit, name, limit] of /** @type {[number, string, number][]} */ ([[1, "s", 120], [60, "min", 7200], [3600, "h", 172800]]))
    if (seconds < limit) return `${Math.round(seconds / unit)} ${name} ago`;
  return `${Math.round(seconds / 86400)} d ago`;
}

function age() {
  for (const time of document.querySelectorAll("time")) {
    const at = Date.parse(time.dateTime);
    time.title ||= new Date(at).toLocaleString();
    if (Date.now() >= at) time.textContent = ago((Date.now() - at) / 1000);
  }
}

// --- updates ----------------------------------------------------------------------------------------

/** Whether the reader is at this element: it has the focus, or what is selected lies in it. @param {Element} element */
function used(element) {
  const selection = getSelection();
  return element.contains(document.activeElement) || (!!selection && !selection.isCollapsed && selection.containsNode(element, true));
}

/** What an element says, apart from what this script and the reader change in it. @param {Element} element */
function said(element) {
  const copy = /** @type {Element} */ (element.cloneNode(true));
  for (const time of copy.querySelectorAll("time")) { time.textContent = ""; time.removeAttribute("title"); }
  for (const details of copy.querySelectorAll("details")) details.removeAttribute("open");
  copy.classList.remove("fresh", "gone");
  return copy.outerHTML.replaceAll(' class=""', "");
}

/** Put `next` in the place of `old`, and leave what the reader is at. @param {Element} old @param {Element} next */
function update(old, next) {
  if (said(old) === said(next)) return;
  for (const details of next.querySelectorAll("details"))
    if (details.id && /** @type {HTMLDetailsElement | null} */ (document.getElementById(details.id))?.open) details.open = true;
  const lists = [...old.querySelectorAll(":scope [data-list]")];
  const fresh = [...next.querySelectorAll(":scope [data-list]")];
  const same = lists.length === fresh.length, aimed = same && lists.length > 0 && old.matches(":hover");
  if (!used(old) && !aimed) return void old.replaceWith(document.adoptNode(next));
  if (!same) return;
  lists.forEach((list, at) => merge(list, fresh[at]));
  const lines = [...old.querySelectorAll(":scope > p")], now = [...next.querySelectorAll(":scope > p")];
  lines.forEach((line, at) => {
    if (lines.length !== now.length || used(line) || said(line) === said(now[at])) return;
    const top = lists[0]?.getBoundingClientRect().top, other = document.adoptNode(now[at]);
    line.replaceWith(other);
    if (lists[0]?.getBoundingClientRect().top !== top) other.replaceWith(line); // a longer line would move the list
  });
}

/** A list that the reader is in or points at: new items come last, gone ones stay as such, none changes its place. @param {Element} list @param {Element} next */
function merge(list, next) {
  const name = (/** @type {Element} */ item, /** @type {number} */ at) => item.id || String(at);
  const items = new Map([...next.children].map((item, at) => [name(item, at), item]));
  for (const [at, item] of [...list.children].entries()) {
    const now = items.get(name(item, at));
    items.delete(name(item, at));
    if (!now) item.classList.add("gone");
    else if (!used(item) && said(item) !== said(now)) item.replaceWith(document.adoptNode(now));
  }
  for (const item of items.values()) {
    item.classList.add("fresh");
    list.append(document.adoptNode(item));
  }
}

const stream = document.getElementById("stream");
const pause = document.getElementById("pause");
/** @type {EventSource | undefined} */
let source;

/** @param {string} text */
function tell(text) {
  if (stream && stream.textContent !== text) stream.textContent = text;
}

function listen() {
  if (!live) return;
  source = new EventSource(live);
  source.onopen = () => tell("");
  source.onerror = () => tell("Not connected: this page may be out of date.");
  source.addEventListener("closed", () => { source?.close(); tell("The console was closed. Run callosum console again."); });
  source.addEventListener("parts", (event) => {
    for (const [id, html] of Object.entries(JSON.parse(event.data))) {
      const old = document.getElementById(id), next = parsed(html);
      if (old && next) update(old, next);
    }
    age();
  });
}

pause?.addEventListener("click", () => {
  const paused = pause.getAttribute("aria-pressed") !== "true";
  pause.setAttribute("aria-pressed", String(paused));
  if (paused) { source?.close(); tell("Updates are paused."); } else { listen(); tell(""); }
});

// --- keys -------------------------------------------------------------------------------------------

const keys = /** @type {HTMLInputElement | null} */ (document.querySelector("#keys input"));
const buttons = { a: ".approve, .happened", r: ".deny, .not", l: "button.later", o: "a.open" };

document.addEventListener("keydown", (event) => {
  const at = /** @type {HTMLElement} */ (event.target);
  if (!keys?.checked || event.ctrlKey || event.metaKey || event.altKey || at.closest("input, textarea, select")) return;
  const cards = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("#waiting > .cards > .card")]);
  const here = /** @type {HTMLElement | null} */ (at.closest(".card"));
  if (event.key === "j" || event.key === "k") {
    const place = here ? cards.indexOf(here) + (event.key === "j" ? 1 : -1) : 0;
    cards[Math.max(0, Math.min(place, cards.length - 1))]?.focus();
  } else if (here && event.key in buttons) {
    /** @type {HTMLElement | null} */ (here.querySelector(buttons[/** @type {keyof typeof buttons} */ (event.key)]))?.click();
  } else return;
  event.preventDefault();
});

keys?.addEventListener("change", () => localStorage.setItem("keys", String(keys.checked)));
if (keys) keys.checked = localStorage.getItem("keys") !== "false";
for (const id of ["pause", "keys", "keys-help"]) document.getElementById(id)?.removeAttribute("hidden");
age();
setInterval(age, 5000);
listen();
