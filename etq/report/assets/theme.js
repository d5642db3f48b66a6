// Light or dark, by the system's setting until the reader chooses. Printed pages are always light.

const root = document.documentElement;
const dark = matchMedia("(prefers-color-scheme: dark)");
const names = ["auto", "light", "dark"];
let chosen = "auto";

function apply(theme) {
  root.dataset.theme = theme === "auto" ? (dark.matches ? "dark" : "light") : theme;
  etq.redraw();
}

// The palette's colours, for drawing on a canvas.
etq.colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();

etq.themeButton = () => {
  const button = etq.element("button", { type: "button", class: "quiet", id: "theme", title: "Light or dark" });
  const update = () => {
    button.textContent = `Theme: ${chosen}`;
  };
  button.addEventListener("click", () => {
    chosen = names[(names.indexOf(chosen) + 1) % names.length];
    update();
    apply(chosen);
  });
  update();
  return button;
};

dark.addEventListener("change", () => apply(chosen));
etq.narrow.addEventListener("change", () => etq.redraw());
// The width of paper is unknown before the page is laid out for print, so this is the width of A4 or Letter in pixels.
const PAPER = 680;
addEventListener("beforeprint", () => {
  etq.paper = PAPER;
  apply("light");
});
addEventListener("afterprint", () => {
  etq.paper = null;
  apply(chosen);
});
apply(chosen);
