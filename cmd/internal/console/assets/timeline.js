// Tells the moment under the slider while it moves, and shows it once it rests.
"use strict";
(() => {
  const slider = document.getElementById("moment");
  if (!slider) return;
  const form = slider.form;
  const told = form.querySelector("output");
  const from = Date.parse(form.dataset.from);
  let timer = 0;

  const moment = () => new Date(from + 1000 * slider.valueAsNumber).toISOString();

  slider.addEventListener("input", () => {
    told.textContent = moment();
    slider.setAttribute("aria-valuetext", told.textContent);
    // Arrow keys come one by one: the last of them counts.
    clearTimeout(timer);
    timer = setTimeout(() => form.requestSubmit(), 700);
  });
  form.addEventListener("submit", () => clearTimeout(timer));
})();
