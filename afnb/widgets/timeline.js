// Both runs on one time line: an overview strip, two lanes, one line of words. No dependency, no request.
// Sameness is faint; what differs has colour AND shape. All text goes through textContent or fillText.

const GUTTER = 52, RIGHT = 12, STRIP = { top: 8, height: 16 }, LANES = { bad: 68, good: 108 }, HEIGHT = 146;
const FIT = 90; // rows up to which everything is shown at once
const SYNC = 0, NEAR = 1, RETRY = 2, UNLIKE = 3, LOG = 4, MODEL = 5, FORK = 6;

function render({ model, el }) {
  const data = model.get("data");
  const rows = data.kinds.length;
  const kinds = Uint8Array.from(data.kinds, Number);
  const two = data.lanes.length === 2;
  const goodY = two ? LANES.good : LANES.bad;
  const height = two ? HEIGHT : HEIGHT - 40;
  let from = 0, to = Math.max(1, rows); // the window of rows that the lanes show
  let hover = -1, drawn = 0, frame = 0, width = 0, dead = false;

  el.classList.add("afnb-explore-line");
  const box = document.createElement("div");
  box.className = "afnb-card afnb-line-box";
  const canvas = document.createElement("canvas");
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "slider");
  canvas.setAttribute("aria-label", two ? "time line of the bad and the good run" : "time line of the run");
  canvas.setAttribute("aria-valuemin", "0");
  canvas.setAttribute("aria-valuemax", String(Math.max(0, rows - 1)));
  canvas.dataset.testid = "timeline";
  const words = document.createElement("div");
  words.className = "afnb-line-words";
  const keys = document.createElement("div");
  keys.className = "afnb-line-keys";
  keys.textContent =
    "click or ← → to select · n p next, previous difference" + (two ? " · f fork" : "") + " · + − zoom · Home End";
  box.append(canvas, words, keys);
  el.append(box);

  const selected = () => model.get("selected");
  const label = (side, row) => data.labels[data[side + "_label"][row]];
  const span = () => Math.max(1, to - from);
  const plot = () => Math.max(10, width - GUTTER - RIGHT);
  const xOf = (row) => GUTTER + ((row - from + 0.5) / span()) * plot();
  const rowAt = (x) => Math.max(0, Math.min(rows - 1, Math.floor(from + ((x - GUTTER) / plot()) * span())));
  const rowOfStrip = (x) => Math.max(0, Math.min(rows - 1, Math.floor(((x - GUTTER) / plot()) * rows)));

  function sentence(row) {
    if (row < 0 || row >= rows) return "no steps";
    const said = [];
    for (const side of data.lanes)
      if (data[side][row] >= 0) said.push((two ? side + " " : "step ") + data[side][row] + " " + label(side, row));
    const patched = model.get("patched").includes(data.bad[row]) ? " · changed in the shown experiment" : "";
    return (two || kinds[row] === RETRY ? data.words[kinds[row]] + ": " : "") + said.join("; ") + patched;
  }

  function show(row) { // keep the row inside the window
    if (span() >= rows) { from = 0; to = Math.max(1, rows); return; }
    const margin = Math.min(3, Math.floor(span() / 4));
    let shift = 0;
    if (row < from + margin) shift = row - margin - from;
    else if (row >= to - margin) shift = row + margin + 1 - to;
    move(shift);
  }

  function move(shift) {
    const size = span();
    from = Math.max(0, Math.min(rows - size, from + shift));
    to = from + size;
  }

  function zoom(factor, row) {
    const size = Math.max(Math.min(8, rows), Math.min(rows, Math.round(span() * factor)));
    from = Math.max(0, Math.min(rows - size, Math.round(row - size / 2)));
    to = from + size;
    ask();
  }

  function choose(row) {
    row = Math.max(0, Math.min(rows - 1, row));
    if (!rows || row === selected()) return;
    model.set("selected", row);
    model.save_changes();
  }

  function difference(direction) {
    for (let row = selected() + direction; row >= 0 && row < rows; row += direction)
      if (kinds[row] > NEAR && shown(row)) return choose(row);
  }

  let mask = null; // rows that a search left, or null
  function readMask() {
    const found = model.get("matches");
    mask = null;
    if (found === null) return;
    mask = new Uint8Array(rows);
    for (const [first, last] of found) mask.fill(1, first, last + 1);
  }
  const shown = (row) => mask === null || mask[row] === 1;

  function colours() {
    const style = getComputedStyle(box);
    const get = (name, other) => style.getPropertyValue("--afnb-" + name).trim() || other;
    return {
      fg: get("fg", "#1b1f24"), dim: get("dim", "#57606a"), line: get("line", "#d0d7de"), bg: get("bg", "#fff"),
      soft: get("soft", "#f4f6f8"), good: get("good", "#005f9e"), bad: get("bad", "#b34700"),
      warn: get("warn", "#7a5c00"), patch: get("patch", "#8a3b78"), font: style.fontFamily || "sans-serif",
    };
  }

  function ask() { if (!frame && !dead) frame = requestAnimationFrame(draw); }

  function draw() {
    frame = 0;
    width = Math.max(260, box.clientWidth - 24);
    const ratio = window.devicePixelRatio || 1;
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const c = canvas.getContext("2d");
    c.scale(ratio, ratio);
    const k = colours();
    strip(c, k);
    lanes(c, k);
    const at = selected();
    words.textContent = sentence(hover >= 0 ? hover : at);
    canvas.setAttribute("aria-valuenow", String(at));
    canvas.setAttribute("aria-valuetext", sentence(at));
    canvas.dataset.drawn = String(++drawn);
  }

  function tone(k, kind) { return kind === RETRY ? k.warn : kind === MODEL ? k.good : kind > NEAR ? k.bad : k.dim; }

  function strip(c, k) {
    const y = STRIP.top, h = STRIP.height, step = plot() / Math.max(1, rows);
    c.fillStyle = k.soft;
    c.fillRect(GUTTER, y, plot(), h);
    for (let pass = 0; pass < 2; pass++)
      for (let row = 0; row < rows; row++) {
        const kind = kinds[row], stands = kind > NEAR;
        if (stands !== (pass === 1) || (!stands && step < 3)) continue;
        c.globalAlpha = shown(row) ? (stands ? 0.95 : 0.25) : 0.12;
        c.fillStyle = tone(k, kind);
        const part = kind === LOG || kind === RETRY ? [0, h / 2] : kind === MODEL ? [h / 2, h / 2] : [0, h];
        c.fillRect(GUTTER + row * step, y + part[0], Math.max(1, step - (step > 4 ? 1 : 0)), part[1]);
      }
    c.globalAlpha = 1;
    if (mask !== null) {
      c.fillStyle = k.fg;
      for (let row = 0; row < rows; row++) if (mask[row]) c.fillRect(GUTTER + row * step, y + h + 1, Math.max(1, step), 2);
    }
    if (span() < rows) {
      c.strokeStyle = k.fg;
      c.lineWidth = 1.5;
      c.strokeRect(GUTTER + from * step, y - 2, Math.max(4, span() * step), h + 4);
    }
    const x = GUTTER + (selected() + 0.5) * step;
    c.fillStyle = k.fg;
    c.beginPath(); c.moveTo(x - 4, y - 7); c.lineTo(x + 4, y - 7); c.lineTo(x, y - 1); c.fill();
    c.font = "11px " + k.font;
    c.fillStyle = k.dim;
    c.textBaseline = "middle";
    c.textAlign = "left";
    c.fillText(rows.toLocaleString(), 0, y + h / 2);
  }

  function lanes(c, k) {
    const step = plot() / span(), r = Math.max(1.5, Math.min(7, step * 0.36)), first = Math.floor(from);
    const last = Math.min(rows - 1, Math.ceil(to) - 1);
    c.font = "12px " + k.font;
    c.textBaseline = "middle";
    c.fillStyle = k.fg;
    c.textAlign = "left";
    c.fillText(two ? "bad" : "run", 0, LANES.bad);
    if (two) c.fillText("good", 0, goodY);
    c.strokeStyle = k.line;
    c.lineWidth = 1;
    for (const y of new Set([LANES.bad, goodY])) { c.beginPath(); c.moveTo(GUTTER, y); c.lineTo(width - RIGHT, y); c.stroke(); }
    const at = selected();
    if (at >= first && at <= last) {
      c.fillStyle = k.soft; c.strokeStyle = k.fg; c.lineWidth = 1.5;
      const w = Math.max(step, 2 * r + 6), x = xOf(at) - w / 2;
      c.beginPath(); c.rect(x, LANES.bad - 15, w, goodY - LANES.bad + 30); c.fill(); c.stroke();
    }
    for (let pass = 0; pass < 2; pass++)
      for (let row = first; row <= last; row++) if ((kinds[row] > NEAR) === (pass === 1)) mark(c, k, row, r, step);
    c.globalAlpha = 1;
    numbers(c, k, first, last, step);
  }

  function mark(c, k, row, r, step) {
    const kind = kinds[row], x = xOf(row), colour = tone(k, kind);
    c.globalAlpha = shown(row) ? 1 : 0.16;
    c.strokeStyle = c.fillStyle = colour;
    c.lineWidth = Math.max(1, Math.min(2.2, step / 6));
    const both = data.bad[row] >= 0 && two && data.good[row] >= 0;
    if (kind === FORK) {
      c.beginPath(); c.moveTo(x, LANES.bad - 36); c.lineTo(x, goodY + 15); c.stroke();
      c.beginPath(); c.moveTo(x, LANES.bad - 36); c.lineTo(x + 12, LANES.bad - 31); c.lineTo(x, LANES.bad - 26); c.fill();
      c.textAlign = "left"; c.font = "bold 11px " + k.font;
      c.fillText("fork", x + 15, LANES.bad - 30);
    } else if (both && kind <= NEAR) {
      const faint = c.globalAlpha;
      c.globalAlpha = faint * 0.35;
      c.beginPath(); c.moveTo(x, LANES.bad + r); c.lineTo(x, goodY - r); c.stroke();
      c.globalAlpha = faint;
    }
    if (data.bad[row] >= 0) shape(c, k, kind, x, LANES.bad, r, true);
    if (two && data.good[row] >= 0) shape(c, k, kind, x, goodY, r, false);
    if (both && kind === UNLIKE && r > 3) {
      const y = (LANES.bad + goodY) / 2;
      c.beginPath(); c.moveTo(x - 4, y - 2.5); c.lineTo(x + 4, y - 2.5); c.moveTo(x - 4, y + 2.5); c.lineTo(x + 4, y + 2.5);
      c.moveTo(x - 3, y + 6); c.lineTo(x + 3, y - 6); c.stroke();
    }
    if (model.get("patched").includes(data.bad[row])) {
      const y = LANES.bad, s = r + 4;
      c.strokeStyle = k.patch; c.lineWidth = 2.5;
      c.beginPath(); c.moveTo(x, y - s); c.lineTo(x + s, y); c.lineTo(x, y + s); c.lineTo(x - s, y); c.closePath(); c.stroke();
    }
  }

  // alike: small dot · nearly: ring · retry: ring with a turn · bad alone, unlike, fork: filled square (bad) and
  // hollow square (good)
  function shape(c, k, kind, x, y, r, bad) {
    const faint = c.globalAlpha;
    c.beginPath();
    if (kind === SYNC) { c.globalAlpha = faint * 0.5; c.arc(x, y, Math.max(1, r * 0.45), 0, 7); c.fill(); }
    else if (kind === NEAR) { c.globalAlpha = faint * 0.7; c.arc(x, y, Math.max(1.2, r * 0.6), 0, 7); r > 2 ? c.stroke() : c.fill(); }
    else if (kind === RETRY) {
      c.arc(x, y, Math.max(1.5, r * 0.7), 0.6, 5.6);
      r > 2.5 ? c.stroke() : c.fill();
      if (r > 3) { const a = r * 0.7; c.beginPath(); c.moveTo(x + a + 3, y - a - 1); c.lineTo(x + a + 2, y + 1); c.lineTo(x + a - 4, y - 2); c.fill(); }
    } else {
      c.rect(x - r, y - r, 2 * r, 2 * r);
      if (bad) c.fill();
      else { const was = c.fillStyle; c.fillStyle = k.bg; c.fill(); c.fillStyle = was; c.stroke(); }
    }
    c.globalAlpha = faint;
  }

  function numbers(c, k, first, last, step) {
    c.font = "11px " + k.font;
    c.textAlign = "center";
    const each = Math.max(1, Math.ceil(30 / step)), room = step - 8;
    const forkX = data.fork >= first && data.fork <= last ? xOf(data.fork) : null;
    for (let row = first; row <= last; row++) {
      for (const [side, y] of two ? [["bad", LANES.bad - 27], ["good", goodY + 26]] : [["bad", LANES.bad + 26]]) {
        const number = data[side][row];
        if (number < 0 || number % each) continue;
        c.fillStyle = row === selected() ? k.fg : k.dim;
        c.globalAlpha = shown(row) ? 1 : 0.3;
        if (side === "bad" && two && forkX !== null && xOf(row) > forkX - 12 && xOf(row) < forkX + 58) continue;
        let text = String(number);
        if (room > 46) text = fitted(c, number + " " + label(side, row), room);
        c.fillText(text, xOf(row), y);
      }
    }
    c.globalAlpha = 1;
  }

  function fitted(c, text, room) {
    if (c.measureText(text).width <= room) return text;
    let keep = text.length;
    while (keep > 3 && c.measureText(text.slice(0, keep) + "…").width > room) keep -= 1;
    return text.slice(0, keep) + "…";
  }

  // -- hands and keys ------------------------------------------------------------------------------

  const place = (event) => { const at = canvas.getBoundingClientRect(); return [event.clientX - at.left, event.clientY - at.top]; };
  let dragging = false;
  const onStrip = (y) => y < STRIP.top + STRIP.height + 6;
  function strike(event) {
    const [x, y] = place(event);
    if (x < GUTTER - 6) return;
    if (onStrip(y)) { const row = rowOfStrip(x); if (span() < rows) move(Math.round(row - span() / 2) - from); choose(row); }
    else choose(rowAt(x));
    ask();
  }
  const on = [];
  function listen(target, name, deed, options) { target.addEventListener(name, deed, options); on.push([target, name, deed]); }
  listen(canvas, "pointerdown", (event) => { dragging = onStrip(place(event)[1]); canvas.focus(); strike(event); });
  listen(window, "pointerup", () => { dragging = false; });
  listen(canvas, "pointermove", (event) => {
    if (dragging) return strike(event);
    const [x, y] = place(event);
    const row = x < GUTTER || !rows ? -1 : onStrip(y) ? rowOfStrip(x) : rowAt(x);
    if (row !== hover) { hover = row; words.textContent = sentence(hover >= 0 ? hover : selected()); }
  });
  listen(canvas, "pointerleave", () => { hover = -1; ask(); });
  listen(canvas, "wheel", (event) => {
    if (!event.ctrlKey && !event.shiftKey && document.activeElement !== canvas) return;
    if (onStrip(place(event)[1])) return;
    event.preventDefault();
    if (event.ctrlKey) zoom(event.deltaY > 0 ? 1.25 : 0.8, rowAt(place(event)[0]));
    else { move(Math.round(Math.sign(event.deltaY || event.deltaX) * Math.max(1, span() / 10))); ask(); }
  }, { passive: false });
  listen(canvas, "keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.round(span() / 2));
    const deeds = {
      ArrowLeft: () => choose(selected() - 1), ArrowRight: () => choose(selected() + 1),
      ArrowUp: () => choose(selected() - 1), ArrowDown: () => choose(selected() + 1),
      PageUp: () => choose(selected() - page), PageDown: () => choose(selected() + page),
      Home: () => choose(0), End: () => choose(rows - 1),
      n: () => difference(1), p: () => difference(-1), f: () => { if (data.fork >= 0) choose(data.fork); },
      "+": () => zoom(0.6, selected()), "=": () => zoom(0.6, selected()), "-": () => zoom(1.6, selected()),
    };
    const deed = deeds[event.key];
    if (!deed) return;
    event.preventDefault();
    event.stopPropagation(); // the notebook has keys of its own
    hover = -1;
    deed();
    ask();
  });

  const changed = () => { show(selected()); ask(); };
  const searched = () => { readMask(); ask(); };
  model.on("change:selected", changed);
  model.on("change:matches", searched);
  model.on("change:patched", ask);
  const sizes = new ResizeObserver(ask);
  sizes.observe(box);
  const themes = new MutationObserver(ask);
  for (const target of [document.documentElement, document.body])
    themes.observe(target, { attributes: true, attributeFilter: ["class", "theme", "data-theme", "data-jp-theme-light"] });
  const scheme = window.matchMedia("(prefers-color-scheme: dark)");
  listen(scheme, "change", ask);

  readMask();
  if (rows > FIT) { to = FIT - 10; from = 0; move(Math.round(selected() - span() / 2)); }
  ask();

  return () => {
    dead = true;
    cancelAnimationFrame(frame);
    sizes.disconnect();
    themes.disconnect();
    for (const [target, name, deed] of on) target.removeEventListener(name, deed);
    model.off("change:selected", changed);
    model.off("change:matches", searched);
    model.off("change:patched", ask);
  };
}

export default { render };
