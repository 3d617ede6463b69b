// Says what is wrong with the page for somebody who can't see it, sees little, or has no mouse: a list of sentences.
(() => {
  const wrong = [];
  const name = e => {
    const text = (e.getAttribute("aria-label") || e.textContent || "").trim().replace(/\s+/g, " ").slice(0, 40);
    return "<" + e.localName + (e.id ? "#" + e.id : "") + (e.className && typeof e.className === "string" ? "." + e.className : "") + "> " + JSON.stringify(text);
  };
  const shown = e => e.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && e.getClientRects().length > 0;

  if (!document.documentElement.lang) wrong.push("the page says no language");
  if (!document.title) wrong.push("the page has no title");
  if (document.querySelectorAll("main").length !== 1) wrong.push("want one <main>");
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) {
    const far = [...document.querySelectorAll("body *")].filter(e => shown(e) && e.getBoundingClientRect().right > root.clientWidth + 1 &&
      !e.closest(".scroll, [data-scroll]")).slice(0, 3).map(name);
    wrong.push("the page is " + root.scrollWidth + " px wide, " + root.clientWidth + " are seen: " + far.join(", "));
  }

  let last = 0;
  const ones = [...document.querySelectorAll("h1")].filter(shown);
  if (ones.length !== 1) wrong.push("want one <h1>, got " + ones.length);
  for (const h of document.querySelectorAll("h1,h2,h3,h4,h5,h6")) {
    if (!shown(h)) continue;
    const level = +h.localName[1];
    if (level > last + 1) wrong.push("heading of level " + level + " behind one of level " + last + ": " + name(h));
    if (!h.textContent.trim()) wrong.push("an empty heading: " + name(h));
    last = level;
  }
  for (const t of document.querySelectorAll("table")) {
    if (t.closest(".uplot")) continue;
    if (!t.caption || !t.caption.textContent.trim()) wrong.push("a table without a caption: " + name(t));
    if (!t.querySelector("th")) wrong.push("a table without heads: " + name(t));
    for (const h of t.querySelectorAll("th:not([scope])")) wrong.push("a table's head without scope: " + name(h));
  }
  for (const i of document.querySelectorAll("img:not([alt])")) wrong.push("an image without a text: " + name(i));
  for (const c of document.querySelectorAll("canvas, svg")) {
    const told = c.closest("[role=img][aria-label], [aria-hidden=true], [role=grid][aria-label], [role=application][aria-label]") ||
      c.getAttribute("aria-label") || c.getAttribute("aria-labelledby") || c.querySelector(":scope > title");
    if (!told) wrong.push("a drawing without a text: " + name(c));
  }
  const ids = new Set();
  for (const e of document.querySelectorAll("[id]")) {
    if (ids.has(e.id)) wrong.push("two elements have the id " + e.id);
    ids.add(e.id);
  }
  for (const e of document.querySelectorAll("[aria-labelledby], [aria-describedby], [aria-controls], label[for]")) {
    for (const a of ["aria-labelledby", "aria-describedby", "aria-controls", "for"]) {
      for (const id of (e.getAttribute(a) || "").split(/\s+/)) if (id && !document.getElementById(id)) wrong.push(a + " names " + id + ", which is not there: " + name(e));
    }
  }

  // Contrast: WCAG 2's, of each piece of text against what is behind it.
  const colour = text => {
    let m = text.match(/^rgba?\(([\d.]+)[, ]+([\d.]+)[, ]+([\d.]+)(?:[,/ ]+([\d.]+%?))?\)/);
    if (m) return [+m[1] / 255, +m[2] / 255, +m[3] / 255, m[4] === undefined ? 1 : parseFloat(m[4]) / (m[4].endsWith("%") ? 100 : 1)];
    m = text.match(/^color\(srgb ([\d.e-]+) ([\d.e-]+) ([\d.e-]+)(?: \/ ([\d.]+))?\)/);
    return m ? [+m[1], +m[2], +m[3], m[4] === undefined ? 1 : +m[4]] : null;
  };
  const over = (top, under) => [0, 1, 2].map(i => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const behind = e => {
    const layers = [];
    for (; e; e = e.parentElement) {
      const c = colour(getComputedStyle(e).backgroundColor);
      if (!c) return null;
      if (c[3] > 0) layers.push(c);
      if (c[3] === 1) break;
    }
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    return layers.reverse().reduce((under, top) => over(top, under), dark ? [0.07, 0.07, 0.07, 1] : [1, 1, 1, 1]);
  };
  const light = c => {
    const [r, g, b] = c.map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const told = new Set();
  const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n = words.nextNode(); n; n = words.nextNode()) {
    const e = n.parentElement;
    if (!n.data.trim() || !e || ["SCRIPT", "STYLE", "NOSCRIPT", "OPTION"].includes(e.tagName) || !shown(e) || e.closest(":disabled, [aria-disabled=true]")) continue;
    const style = getComputedStyle(e);
    const back = behind(e), text = colour(e.namespaceURI.endsWith("svg") ? style.fill : style.color);
    if (!back || !text) { wrong.push("a colour that can't be read: " + style.color + " on " + name(e)); continue; }
    let opacity = 1;
    for (let up = e; up; up = up.parentElement) opacity *= +getComputedStyle(up).opacity;
    const got = ratio(over([text[0], text[1], text[2], text[3] * opacity], back), back);
    const size = parseFloat(style.fontSize), large = size >= 24 || size >= 18.66 && +style.fontWeight >= 700;
    const key = style.color + style.backgroundColor + e.className + e.localName;
    if (got < (large ? 3 : 4.5) && !told.has(key)) {
      told.add(key);
      wrong.push("contrast of " + got.toFixed(2) + ": " + name(e));
    }
  }
  return wrong;
})()
