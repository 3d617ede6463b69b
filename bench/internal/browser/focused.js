// Tells which of what marks.js has numbered has the focus, and whether that is seen.
(() => {
  const e = document.activeElement, style = getComputedStyle(e), box = e.getBoundingClientRect();
  const outline = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
  return {
    number: e.focusNumber ?? -1, body: e === document.body,
    seen: (outline || style.boxShadow !== "none") && box.width > 0 && box.bottom > 0 && box.top < innerHeight,
  };
})()
