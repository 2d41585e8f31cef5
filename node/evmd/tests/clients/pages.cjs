// Opens every page of the node in Chromium: follows links, searches, and checks for errors of scripts, violations of the
// content policy, missing assets and problems of accessibility.
//
// Arguments: the address of the pages, that of JSON-RPC, a JSON array of paths to open first, and one of signed transactions,
// each of which makes a block.
"use strict";

const assert = require("node:assert/strict");
const { chromium } = require("playwright-core");
const { AxeBuilder } = require("@axe-core/playwright");

const [base, rpc] = process.argv.slice(2);
const [firstPaths, transfers] = process.argv.slice(4).map((list) => JSON.parse(list));
const MAX_PAGES = 60;
const SCHEMES = ["light", "dark"];
const WIDTHS = [1280, 360];

function watch(page, faults) {
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) faults.push(`${page.url()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => faults.push(`${page.url()}: ${error.message}`));
  page.on("dialog", (dialog) => {
    faults.push(`${page.url()}: a script opened a dialog`);
    dialog.dismiss();
  });
  page.on("requestfailed", (request) => {
    const reason = request.failure().errorText;
    // The next page is opened while the script of the last one waits for an answer.
    if (reason !== "net::ERR_ABORTED") faults.push(`${request.url()}: ${reason}`);
  });
  page.on("response", (response) => {
    if (response.url().includes("/assets/") && response.status() !== 200) {
      faults.push(`${response.url()} has status ${response.status()}`);
    }
    if (!response.url().startsWith(base)) faults.push(`${response.url()} is on another server`);
  });
}

async function isAccessible(page) {
  const { violations } = await new AxeBuilder({ page }).analyze();
  const serious = violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
  const places = serious.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
  assert.deepEqual(places, [], page.url());
}

// The layout must not be wider than the window: tables scroll inside their frames.
async function fits(page) {
  const [wide, inner] = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
  assert(wide <= inner, `${page.url()} is ${wide} wide in a window of ${inner}`);
}

// Follows links from the given paths. Of many paths of one kind, a few are opened.
async function followLinks(page) {
  const [waiting, opened, kinds] = [[...firstPaths], new Set(), new Map()];
  while (waiting.length > 0 && opened.size < MAX_PAGES) {
    const path = waiting.shift();
    const kind = path.replace(/0x[0-9a-fA-F]+|\d+(\.\d+)?/g, "N");
    if (opened.has(path) || (kinds.get(kind) ?? 0) >= 4) continue;
    opened.add(path);
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
    const response = await page.goto(base + path);
    assert.equal(response.status(), 200, path);
    assert.equal(await page.locator("h1").count(), 1, path);
    await fits(page);
    const links = await page.locator("a[href^='/']").evaluateAll((all) => all.map((a) => a.getAttribute("href")));
    waiting.push(...links);
  }
  for (const kind of ["/", "/blocks", "/block/N", "/tx/N", "/address/N", "/fees", "/governance"]) {
    assert(kinds.has(kind), `no page ${kind} was opened: ${[...kinds.keys()]}`);
  }
  return [...opened];
}

async function search(page, text) {
  await page.goto(`${base}/fees`);
  await page.fill("#q", text);
  await page.press("#q", "Enter");
  await page.waitForLoadState();
  return new URL(page.url()).pathname;
}

async function call(method, params) {
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
  const response = await fetch(rpc, { method: "POST", headers: { "content-type": "application/json" }, body });
  return (await response.json()).result;
}

async function searches(page) {
  const block = await call("eth_getBlockByNumber", ["0x1", true]);
  const [tx] = block.transactions;
  assert.equal(await search(page, "1"), "/block/1");
  assert.equal(await search(page, block.hash), "/block/1");
  assert.equal(await search(page, tx.hash), `/tx/${tx.hash}`);
  const address = await search(page, tx.from);
  assert.equal(address.toLowerCase(), `/address/${tx.from}`);
  const bech32 = await page.locator("dt:has-text('Bech32 form') + dd").innerText();
  assert.equal(await search(page, bech32), address);
  assert.equal(await search(page, "<script>alert(1)</script>"), "/search");
  assert.match(await page.locator("main").innerText(), /not a block number/);
}

// The dashboard follows the chain without being loaded again.
async function follows(page) {
  await page.goto(base);
  const head = () => page.locator(".figures a").first().innerText();
  const before = await head();
  await call("eth_sendRawTransaction", [transfers.shift()]);
  await page.waitForFunction((old) => document.querySelector(".figures a").innerText !== old, before);
  assert.notEqual(await head(), before);
}

// The part of a transaction's page that is executed again.
async function executes(page) {
  const block = await call("eth_getBlockByNumber", ["0x1", false]);
  await page.goto(`${base}/tx/${block.transactions[0]}`);
  await page.click("a[data-insert]");
  await page.waitForSelector("h2:has-text('Calls')");
  assert.match(page.url(), /\/tx\/0x[0-9a-f]{64}$/);
  await isAccessible(page);
}

async function withoutScripts(browser) {
  const context = await browser.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  const block = await call("eth_getBlockByNumber", ["0x1", false]);
  await page.goto(`${base}/tx/${block.transactions[0]}`);
  await page.click("a[data-insert]");
  assert.match(await page.locator("main").innerText(), /State changes/);
  await context.close();
}

// The first Tab reaches the link to the contents, and the search field can be reached too.
async function keyboard(page) {
  await page.goto(base);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
  for (let presses = 0; presses < 10; presses += 1) {
    await page.keyboard.press("Tab");
    if (await page.evaluate(() => document.activeElement.id === "q")) return;
  }
  assert.fail("the search field is not reached with Tab");
}

(async () => {
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  const faults = [];
  try {
    for (const colorScheme of SCHEMES) {
      for (const width of WIDTHS) {
        const viewport = { width, height: 800 };
        const context = await browser.newContext({ viewport, colorScheme });
        const page = await context.newPage();
        watch(page, faults);
        const opened = await followLinks(page);
        for (const path of opened.slice(0, 12)) {
          await page.goto(base + path);
          await isAccessible(page);
        }
        await follows(page);
        await executes(page);
        await context.close();
      }
    }
    const context = await browser.newContext();
    const page = await context.newPage();
    watch(page, faults);
    await keyboard(page);
    // A search for text that means nothing is answered with status 400, which the console reports.
    await searches(page);
    const unexpected = faults.filter((fault) => !/status of 400|status of 404/.test(fault));
    assert.deepEqual(unexpected, []);
    await withoutScripts(browser);
  } finally {
    await browser.close();
  }
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
