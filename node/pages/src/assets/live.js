// Replaces the parts of a page that change. Without this script, the page shows the state at the time of the request.
"use strict";

const PERIOD_MS = 1000;

// Each element with data-live names the path that returns its contents.
async function refresh(element) {
  try {
    const response = await fetch(element.dataset.live, { cache: "no-store" });
    if (response.ok) {
      element.innerHTML = await response.text();
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

// A link with data-insert is followed inside the page.
async function insert(event, link) {
  event.preventDefault();
  const section = link.closest("section");
  link.textContent = "Executing…";
  try {
    const response = await fetch(link.href, { headers: { "x-fragment": "1" } });
    section.innerHTML = await response.text();
  } catch {
    location.href = link.href;
  }
}

for (const element of document.querySelectorAll("[data-live]")) follow(element);
for (const button of document.querySelectorAll("button[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", () => copy(button));
}
for (const link of document.querySelectorAll("a[data-insert]")) {
  link.addEventListener("click", (event) => insert(event, link));
}
