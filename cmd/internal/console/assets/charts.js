// Draws what stands in data-chart: {"x": [seconds since 1970], "series": [{"name", "unit", "values"}]}. uPlot does the drawing.
"use strict";
(() => {
  const drawn = new WeakMap();
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const clock = (t) => t == null ? "–" : new Date(t * 1000).toISOString().slice(11, 19); // UTC, as in tables

  function draw(box) {
    const text = box.getAttribute("data-chart");
    const have = drawn.get(box);
    if (have && have.text === text && have.width === box.clientWidth) return;
    const c = JSON.parse(text);
    const data = [c.x, ...c.series.map((s) => s.values)];
    if (have && have.width === box.clientWidth) {
      have.plot.setData(data);
      have.text = text;
      return;
    }
    if (have) have.plot.destroy();
    const axis = { stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line"), width: 1 } };
    const dashes = [[], [6, 4], [2, 3]]; // told by more than colour
    const plot = new uPlot({
      width: box.clientWidth, height: box.clientHeight - 30, cursor: { drag: { x: false, y: false } },
      scales: { y: { range: (_, low, high) => [0, Math.max(high, 1)] } },
      axes: [{ ...axis, space: 80, values: (_, times) => times.map(clock) }, { ...axis, size: 60 }],
      series: [{ label: "time", value: (_, t) => clock(t) }, ...c.series.map((s, i) => ({
        label: s.name, stroke: color(`--chart-${i % 2 + 1}`), dash: dashes[i % 3], width: 2, points: { show: false },
        value: (_, v) => v == null ? "–" : `${Math.round(v * 10) / 10} ${s.unit}`,
      }))],
    }, data, box);
    drawn.set(box, { plot, text, width: box.clientWidth });
  }

  const all = () => document.querySelectorAll("[data-chart]").forEach(draw);
  document.addEventListener("console:update", all);
  window.addEventListener("resize", all);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    document.querySelectorAll("[data-chart]").forEach((box) => { const h = drawn.get(box); if (h) { h.plot.destroy(); drawn.delete(box); } });
    all();
  });
  all();
})();
