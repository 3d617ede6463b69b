// Draws the map of nodes: data-cells has two bytes for each node, in base64, and data-about what they mean. A cell of a scale is filled,
// a cell of a class is a frame, where cells are large enough. Names are asked for in blocks, of what is pointed at.
"use strict";
(() => {
  const box = document.getElementById("mapbox");
  if (!box) return;
  const canvas = document.getElementById("map"), whole = canvas.parentElement;
  const told = document.getElementById("cell");
  const context = canvas.getContext("2d");
  const firstClass = 32768, steps = 1000, ramp = 6, classColours = 8;
  const heading = 18, gap = 12, block = 256, smallest = 2, largest = 24;

  let about = null, cells = null, text = "", colours = [];
  let size = 0, tiles = [], height = 0, at = -1, pending = 0;
  const names = new Map(); // by block, of the map that is shown

  function read() {
    const now = box.getAttribute("data-about") + box.getAttribute("data-cells");
    if (now === text) return false;
    text = now;
    const next = JSON.parse(box.getAttribute("data-about"));
    if (!about || next.fingerprint !== about.fingerprint) { names.clear(); at = -1; }
    about = next;
    const raw = atob(box.getAttribute("data-cells"));
    cells = new Uint16Array(raw.length / 2);
    for (let i = 0; i < cells.length; i++) cells[i] = raw.charCodeAt(2 * i) | raw.charCodeAt(2 * i + 1) << 8;
    return true;
  }

  // packed is a colour of the style sheet as ImageData has it.
  function packed(name) {
    const hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const n = parseInt(hex.slice(1), 16);
    return (255 << 24 | (n & 255) << 16 | (n >> 8 & 255) << 8 | n >> 16) >>> 0;
  }

  function readColours() {
    colours = [];
    for (let i = 0; i < ramp; i++) colours.push(packed(`--step-${i}`));
    for (let i = 0; i < classColours; i++) colours.push(packed(`--class-${i}`));
  }

  const colourOf = (cell) => cell <= steps ? Math.min(Math.floor(cell * ramp / steps), ramp - 1)
    : ramp + Math.min(cell - firstClass, classColours - 1);

  // layOut places the groups on shelves, each as a block of cells below its name.
  function layOut(s) {
    const width = Math.max(box.clientWidth, 100);
    const out = [];
    let x = 0, y = 0, shelf = 0, first = 0;
    for (const g of about.groups) {
      if (g.shown && g.nodes > 0) {
        const most = Math.max(1, Math.floor(width / s));
        const cols = Math.min(most, Math.max(Math.ceil(Math.sqrt(g.nodes * 2)), Math.ceil(110 / s)));
        const w = Math.max(Math.min(cols, g.nodes) * s, Math.min(110, width));
        const h = heading + Math.ceil(g.nodes / cols) * s;
        if (x > 0 && x + w > width) { x = 0; y += shelf + gap; shelf = 0; }
        out.push({ x, y, w, h, cols, first, nodes: g.nodes, name: g.name });
        x += w + gap;
        shelf = Math.max(shelf, h);
      }
      first += g.nodes;
    }
    return { tiles: out, height: y + shelf };
  }

  // fit takes the largest cells with which all of the map is seen.
  function fit() {
    size = smallest;
    for (let s = largest; s > smallest; s--) {
      if (layOut(s).height <= box.clientHeight) { size = s; break; }
    }
  }

  function place() {
    if (!size) fit();
    ({ tiles, height } = layOut(size));
    draw();
  }

  const soon = () => { if (!pending) pending = requestAnimationFrame(() => { pending = 0; draw(); }); };

  function draw() {
    const width = Math.max(box.clientWidth, 100), seen = box.clientHeight;
    if (canvas.width !== width || canvas.height !== seen) { canvas.width = width; canvas.height = seen; }
    // The canvas is as high as what is seen, and sticks within a box as high as the map.
    whole.style.height = `${Math.max(height, seen)}px`;
    const top = box.scrollTop, image = context.createImageData(width, seen), pixels = new Uint32Array(image.data.buffer);
    const inner = size >= 4 ? size - 1 : size;
    for (const t of tiles) {
      if (t.y > top + seen || t.y + t.h < top) continue;
      const from = Math.max(0, Math.floor((top - t.y - heading) / size)) * t.cols;
      for (let i = from; i < t.nodes; i++) {
        const y0 = t.y + heading + Math.floor(i / t.cols) * size - top;
        if (y0 >= seen) break;
        const x0 = t.x + i % t.cols * size, k = colourOf(cells[t.first + i]), c = colours[k];
        const frame = k >= ramp && inner >= 5;
        for (let y = Math.max(0, y0); y < Math.min(y0 + inner, seen); y++) {
          for (let x = x0; x < Math.min(x0 + inner, width); x++) {
            const dx = x - x0, dy = y - y0;
            if (!frame || dx === 0 || dy === 0 || dx === inner - 1 || dy === inner - 1 || marked(k - ramp, dx, dy, inner)) pixels[y * width + x] = c;
          }
        }
      }
    }
    context.putImageData(image, 0, 0);
    const style = getComputedStyle(document.documentElement);
    context.fillStyle = style.getPropertyValue("--text").trim();
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "top";
    for (const t of tiles) {
      if (t.y > top + seen || t.y + heading < top) continue;
      context.save();
      context.beginPath();
      context.rect(t.x, t.y - top, t.w, heading);
      context.clip();
      context.fillText(`${t.name} · ${t.nodes.toLocaleString("en")}`, t.x, t.y - top + 2);
      context.restore();
    }
    const where = at < 0 ? null : spot(at);
    if (where) {
      context.strokeStyle = style.getPropertyValue("--focus").trim();
      context.lineWidth = 3;
      context.strokeRect(where.x - 2.5, where.y - top - 2.5, size + 4, size + 4);
    }
  }

  // marked tells classes apart by more than their colour, within their frame.
  function marked(k, x, y, n) {
    switch (k) {
      case 1: return x === y;
      case 2: return x === y || x + y === n - 1;
      case 3: return x === n >> 1;
      case 4: return y === n >> 1;
      case 5: return x + y === n - 1;
      case 6: return x === n >> 1 || y === n >> 1;
    }
    return false;
  }

  const tileOf = (i) => tiles.find((t) => i >= t.first && i < t.first + t.nodes);

  function spot(i) {
    const t = tileOf(i);
    if (!t) return null;
    const k = i - t.first;
    return { x: t.x + k % t.cols * size, y: t.y + heading + Math.floor(k / t.cols) * size };
  }

  function under(event) {
    const r = canvas.getBoundingClientRect(), x = event.clientX - r.left, y = event.clientY - r.top + box.scrollTop;
    for (const t of tiles) {
      if (x < t.x || x >= t.x + t.cols * size || y < t.y + heading || y >= t.y + t.h) continue;
      const k = Math.floor((y - t.y - heading) / size) * t.cols + Math.floor((x - t.x) / size);
      if (k < t.nodes) return t.first + k;
    }
    return -1;
  }

  function words(i) {
    const cell = cells[i];
    if (cell >= firstClass) return about.classes[cell - firstClass];
    const v = about.low + cell / steps * (about.high - about.low);
    return `${Math.round(v * 10) / 10} ${about.unit}`;
  }

  // nameOf asks for the names of a block once. Where the nodes are others by now the page is asked for again.
  async function nameOf(i) {
    const first = i - i % block;
    if (!names.has(first)) {
      const address = `api/v1/ListMapNodes?fingerprint=${about.fingerprint}&first=${first}&limit=${block}`;
      names.set(first, fetch(address, { cache: "no-store" }).then((r) => r.ok ? r.json() : Promise.reject(new Error(String(r.status)))));
    }
    try {
      return (await names.get(first)).names[i - first];
    } catch (e) {
      names.delete(first);
      if (e.message === "409") document.dispatchEvent(new Event("console:refresh"));
      return "";
    }
  }

  async function tell(i) {
    const of = about.fingerprint, group = tileOf(i);
    if (!group) return;
    const name = await nameOf(i);
    if (at !== i || of !== about.fingerprint) return; // something else is pointed at by now
    told.textContent = name ? `${name} · ${group.name} · ${words(i)}` : "The nodes have changed: the map is asked for again.";
  }

  function go(i, scroll) {
    if (i < 0 || i >= cells.length || !tileOf(i)) return;
    at = i;
    const where = spot(i);
    if (scroll && (where.y < box.scrollTop || where.y + size > box.scrollTop + box.clientHeight)) box.scrollTop = where.y - box.clientHeight / 2;
    soon();
    tell(i);
  }

  async function open(i) {
    const name = i < 0 ? "" : await nameOf(i);
    if (name) location.href = `node?name=${encodeURIComponent(name)}`;
  }

  function zoom(by) {
    const before = size;
    size = Math.min(largest, Math.max(smallest, by === 0 ? size : Math.round(size + by * Math.max(1, size / 4))));
    if (by === 0) fit();
    if (size !== before) place();
    if (at >= 0) go(at, true);
  }

  canvas.addEventListener("mousemove", (e) => { const i = under(e); if (i >= 0 && i !== at) go(i, false); });
  canvas.addEventListener("click", (e) => open(under(e)));
  canvas.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || !tiles.length) return;
    const t = at < 0 ? tiles[0] : tileOf(at) || tiles[0], here = tiles.indexOf(t), i = at < 0 ? t.first - 1 : at;
    const within = (n) => Math.min(t.first + t.nodes - 1, Math.max(t.first, n));
    switch (e.key) {
      case "ArrowRight": go(i + 1 < t.first + t.nodes ? i + 1 : (tiles[here + 1] || tiles[0]).first, true); break;
      case "ArrowLeft": go(within(i - 1), true); break;
      case "ArrowDown": go(within(i + t.cols), true); break;
      case "ArrowUp": go(within(i - t.cols), true); break;
      case "PageDown": go(tiles[Math.min(tiles.length - 1, here + 1)].first, true); break;
      case "PageUp": go(tiles[Math.max(0, here - 1)].first, true); break;
      case "Home": go(tiles[0].first, true); break;
      case "End": { const last = tiles[tiles.length - 1]; go(last.first + last.nodes - 1, true); break; }
      case "Enter": open(at); break;
      case "+": case "=": zoom(1); break;
      case "-": zoom(-1); break;
      default: return;
    }
    e.preventDefault();
  });
  document.getElementById("zoom-in").addEventListener("click", () => zoom(1));
  document.getElementById("zoom-out").addEventListener("click", () => zoom(-1));
  document.getElementById("zoom-fit").addEventListener("click", () => zoom(0));
  box.addEventListener("scroll", soon);
  window.addEventListener("resize", () => place());
  document.addEventListener("console:update", () => { if (read()) place(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); soon(); });
  readColours();
  read();
  place();
})();
