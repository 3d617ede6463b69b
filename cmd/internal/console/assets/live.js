// Keeps a page current: while it is visible, it is fetched again every two seconds, or as data-every says, and what has changed is taken
// over in place, so that focus, open details and the scroll position stay. Scripts listen to "console:update" on the document, and have
// the page fetched at once by "console:refresh". An element with data-keep keeps what is in it: a script drew that.
"use strict";
(() => {
  // A page that costs more asks for itself less often, by data-every.
  const every = () => Number(document.querySelector("[data-every]")?.getAttribute("data-every")) || 2000;
  const main = () => document.getElementById("main");
  const status = () => document.getElementById("status");
  let lostAt = null, timer = 0, running = false;

  const clock = (at) => `${at.toISOString().slice(11, 19)} UTC`;

  function attributes(old, next) {
    for (const a of [...old.attributes]) {
      // What the reader has opened stays open.
      if (!next.hasAttribute(a.name) && !(old.tagName === "DETAILS" && a.name === "open")) old.removeAttribute(a.name);
    }
    for (const a of next.attributes) {
      if (old.getAttribute(a.name) !== a.value) old.setAttribute(a.name, a.value);
    }
  }

  // alike tells whether one element can become the other.
  const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && (a.id || "") === (b.id || "");

  function morph(old, next) {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== next.nodeValue) old.nodeValue = next.nodeValue;
      return;
    }
    attributes(old, next);
    // What somebody is typing, or has chosen, stays.
    if (old.hasAttribute("data-keep") || ["INPUT", "SELECT", "TEXTAREA"].includes(old.tagName)) return;
    let o = old.firstChild;
    for (let n = next.firstChild; n; n = n.nextSibling) {
      if (o && alike(o, n)) {
        morph(o, n);
        o = o.nextSibling;
      } else {
        const made = document.importNode(n, true);
        if (o) {
          const after = o.nextSibling;
          old.replaceChild(made, o);
          o = after;
        } else {
          old.appendChild(made);
        }
      }
    }
    while (o) {
      const after = o.nextSibling;
      old.removeChild(o);
      o = after;
    }
  }

  function lost(why) {
    lostAt = lostAt || new Date();
    const text = `Not reachable since ${clock(lostAt)}: ${why}. What is shown is older; it goes on trying.`;
    if (status().textContent === text) return; // said once
    status().textContent = text;
    status().classList.add("lost");
  }

  async function refresh() {
    if (running || document.hidden) return;
    running = true;
    try {
      const answer = await fetch(location.href, { cache: "no-store", headers: { Accept: "text/html" }, signal: AbortSignal.timeout(15000) });
      const text = await answer.text();
      const page = new DOMParser().parseFromString(text, "text/html");
      const fresh = page.getElementById("main");
      if (!fresh) throw new Error(answer.status === 401 || answer.status === 403 ? "this is not allowed any longer" : `it answers ${answer.status}`);
      lostAt = null;
      status().classList.remove("lost");
      morph(main(), fresh);
      // A screen reader is told of what is wrong, not of each second.
      status().setAttribute("aria-live", "off");
      morph(status(), page.getElementById("status"));
      status().setAttribute("aria-live", "polite");
      document.title = page.title;
      document.dispatchEvent(new Event("console:update"));
    } catch (e) {
      lost(e.name === "TimeoutError" ? "no answer within 15 s" : e instanceof TypeError ? "no connection" : e.message);
    } finally {
      running = false;
      later();
    }
  }

  function later() {
    clearTimeout(timer);
    if (!document.hidden) timer = setTimeout(refresh, every());
  }

  if (document.body.hasAttribute("data-live")) {
    document.addEventListener("console:refresh", refresh); // of a script that knows that there is something new
    document.addEventListener("visibilitychange", () => { document.hidden ? clearTimeout(timer) : refresh(); });
    later();
  }
})();
