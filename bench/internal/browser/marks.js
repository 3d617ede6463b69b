// Numbers all that can have the focus by Tab, in a property that nobody sees, and names them.
(() => {
  const chosen = e => e.type !== "radio" || e.checked || !(e.form && e.form.elements[e.name] && e.form.elements[e.name].value);
  const all = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")].filter(e =>
    e.tabIndex >= 0 && !e.disabled && e.type !== "hidden" && chosen(e) && !e.closest("[inert]") &&
    e.checkVisibility({ visibilityProperty: true }) && e.getClientRects().length > 0);
  all.forEach((e, i) => e.focusNumber = i);
  // Tab begins at the page's start again.
  document.body.tabIndex = -1;
  document.body.focus();
  document.body.removeAttribute("tabindex");
  getSelection().removeAllRanges();
  scrollTo(0, 0);
  return all.map(e => "<" + e.localName + (e.id ? "#" + e.id : "") + "> " +
    JSON.stringify((e.getAttribute("aria-label") || e.name || e.textContent || "").trim().slice(0, 60)));
})()
