// A canvas as wide as its box, drawn once per frame, and sharp on screens of small pixels.

etq.Canvas = class {
  // options.title is its name for screen readers; a class of its own has `height`, `listen()` and `drawNow()`
  constructor(parent, options, role) {
    this.options = options;
    this.hits = null;
    this.canvas = etq.element("canvas", { tabindex: 0, role, "aria-label": options.title });
    this.box = etq.element("div", { class: "canvas" }, this.canvas);
    parent.append(this.box);
    this.pen = this.canvas.getContext("2d");
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.box);
    etq.onRedraw(() => this.redraw());
  }

  get width() {
    return this.box.clientWidth && (etq.paper ?? this.box.clientWidth);
  }

  draw() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.drawNow();
    });
  }

  redraw() {
    this.drawNow();
  }

  // Empties the canvas, in the size of its box. Returns how many of its pixels one of the page is.
  clear() {
    const [width, height] = [this.width, this.height];
    const sharp = Math.min(devicePixelRatio || 1, 2);
    if (this.canvas.width !== Math.round(width * sharp) || this.canvas.height !== Math.round(height * sharp)) {
      this.canvas.width = Math.round(width * sharp);
      this.canvas.height = Math.round(height * sharp);
      this.canvas.style.height = `${height}px`;
    }
    this.pen.setTransform(sharp, 0, 0, sharp, 0, 0);
    this.pen.clearRect(0, 0, width, height);
    this.pen.textBaseline = "middle";
    return sharp;
  }
};
