// A picture on a canvas that can be dragged, zoomed and clicked. A subclass has drawNow(), at(x, y) → the item there or
// -1, hover(event), pan(across, down) and zoom(factor, x, y) in pixels, apart(one, other) → the distance of two
// fingers, wheel(event), and keys() → actions by key.
etq.Canvas = class {
  constructor(parent, options, role) {
    this.options = options;
    this.top = 0;
    this.hits = null;
    this.canvas = etq.element("canvas", { tabindex: 0, role, "aria-label": options.title });
    this.box = etq.element("div", { class: "canvas" }, this.canvas);
    parent.append(this.box);
    this.pen = this.canvas.getContext("2d");
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.box);
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

  // Empties the canvas. Returns how many of the canvas's pixels correspond to one pixel of the page.
  clear(width, height) {
    const sharp = Math.min(devicePixelRatio || 1, 2);
    if (this.canvas.width !== Math.round(width * sharp) || this.canvas.height !== Math.round(height * sharp)) {
      this.canvas.width = Math.round(width * sharp);
      this.canvas.height = Math.round(height * sharp);
      this.canvas.style.height = `${height}px`;
    }
    this.pen.setTransform(sharp, 0, 0, sharp, 0, 0);
    this.pen.clearRect(0, 0, width, height);
    return sharp;
  }

  listen() {
    const canvas = this.canvas;
    const fingers = new Map();
    let moved = 0;
    canvas.addEventListener("wheel", (event) => {
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        this.zoom(Math.exp(-Math.max(-60, Math.min(60, event.deltaY)) / 120), event.offsetX, event.offsetY);
      } else this.wheel(event);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      fingers.set(event.pointerId, [event.offsetX, event.offsetY]);
      moved = 0;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!fingers.has(event.pointerId)) return this.hover(event);
      const [x, y] = fingers.get(event.pointerId);
      moved += Math.abs(event.offsetX - x) + Math.abs(event.offsetY - y);
      if (fingers.size === 1) this.pan(x - event.offsetX, y - event.offsetY);
      else if (fingers.size === 2) {
        const [other] = [...fingers].filter(([finger]) => finger !== event.pointerId).map((each) => each[1]);
        const factor = this.apart([event.offsetX, event.offsetY], other) / Math.max(this.apart([x, y], other), 1);
        this.zoom(Math.min(Math.max(factor, 0.5), 2), ...other);
      }
      fingers.set(event.pointerId, [event.offsetX, event.offsetY]);
      etq.hideTip();
    });
    canvas.addEventListener("pointerup", (event) => {
      fingers.delete(event.pointerId);
      if (moved < 6) this.options.choose?.(this.at(event.offsetX, event.offsetY));
    });
    canvas.addEventListener("pointercancel", (event) => fingers.delete(event.pointerId));
    canvas.addEventListener("pointerleave", () => {
      etq.hideTip();
      this.options.over?.(-1);
    });
    canvas.addEventListener("keydown", (event) => {
      const act = this.keys()[event.key];
      if (event.ctrlKey || event.metaKey || event.altKey || !act) return;
      event.preventDefault();
      act();
    });
  }
};
