// Refreshes the parts of a page that change. Without this script, the page shows the state at the time of the request.
"use strict";

const PERIOD_MS = 1000;

// Returns whether text in an element is selected or an element in it has the focus. New contents would end both.
function isInUse(element) {
  const selection = document.getSelection();
  const hasSelection = selection && !selection.isCollapsed && element.contains(selection.anchorNode);
  return hasSelection || element.contains(document.activeElement);
}

// Replaces the contents of an element, and preserves the scroll positions of its tables.
function replace(element, contents) {
  const tables = () => [...element.querySelectorAll(".scroll")];
  const positions = tables().map((table) => table.scrollLeft);
  element.innerHTML = contents;
  tables().forEach((table, at) => (table.scrollLeft = positions[at] ?? 0));
}

// Fetches new contents from the path in the attribute data-live of an element.
async function refresh(element) {
  if (isInUse(element)) return;
  try {
    const response = await fetch(element.dataset.live, { cache: "no-store" });
    if (response.ok) {
      replace(element, await response.text());
      element.classList.remove("stale");
    } else {
      element.classList.add("stale");
    }
  } catch {
    element.classList.add("stale");
  }
}

function follow(element) {
  const next = async () => {
    if (!document.hidden) await refresh(element);
    setTimeout(next, PERIOD_MS);
  };
  setTimeout(next, PERIOD_MS);
}

async function copy(button) {
  await navigator.clipboard.writeText(button.dataset.copy);
  const text = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = text), PERIOD_MS);
}

// Shows a message at the end of a section. The link stays, so the reader can try again.
function showMessage(section, contents) {
  let message = section.querySelector("[data-message]");
  if (!message) {
    message = document.createElement("div");
    message.dataset.message = "";
    section.append(message);
  }
  message.innerHTML = contents;
}

// Replaces the section of a link with data-insert by the contents of its target.
async function insert(event, link) {
  event.preventDefault();
  const text = link.textContent;
  const section = link.closest("section");
  link.textContent = "Executing…";
  try {
    const response = await fetch(link.href, { headers: { "x-fragment": "1" } });
    const contents = await response.text();
    if (response.ok) {
      section.innerHTML = contents;
    } else {
      showMessage(section, contents);
    }
  } catch {
    location.href = link.href;
  }
  link.textContent = text;
}

for (const element of document.querySelectorAll("[data-live]")) follow(element);
for (const button of document.querySelectorAll("button[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", () => copy(button));
}
for (const link of document.querySelectorAll("a[data-insert]")) {
  link.addEventListener("click", (event) => insert(event, link));
}
