// The browser side of all widgets. Python sends everything to show in one trait, `view`:
//
//   svg         the picture; its elements have data-key attributes
//   controls    [{type, name, label, value, ...}]
//   frames      [{marks: {key: kind}, caption, at}], played here without asking Python; pointing at
//               the key `at` shows the frame; controls.Layout describes trail, first and columns;
//               in place of marks there may be the changes since the frame before: {key: kind, null}
//   links       {key: [keys that light up with it]}
//   panels      [{title, lines: [{text, key, note}]}];  beside: whether they stand side by side
//   selectable  prefix of the keys that can be selected;  draggable: whether they can be dragged
//   selected (a key), message, refused (whether the message is an error)
//   answered    the number of the last handled event
//
// Events go back as {name, value, selected}: a control with its value, "click", or "drag". A slider
// tells each value that it passes while it is dragged.

const [SLOWEST, FASTEST, WHOLE] = [250, 40, 30000]; // milliseconds: per frame; for all frames
const LEAST = 11 / 12; // how small a picture may be shown: text of 12 pixels keeps 11
const PATIENCE = 2000; // milliseconds after which an answer is taken for lost
const HELP = "on the picture: up and down select, Alt+up and Alt+down move what is selected, " +
  "Enter acts on it; left and right step, Home and End go to the ends, Space plays";

function node(tag, attributes = {}, ...inside) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== false && value !== undefined) made.setAttribute(name, value);
  }
  // JupyterLab looks at the focused element, so each focusable element needs the attribute
  if (made.tabIndex >= 0) made.setAttribute("data-lm-suppress-shortcuts", "true");
  made.append(...inside);
  return made;
}

const icon = (name) => node("span", { class: `mtvm-icon mtvm-${name}` });

function changed(marks, changes) { // marks with changes, each a kind or null
  return Object.fromEntries(Object.entries({ ...marks, ...changes }).filter(([, kind]) => kind !== null));
}

// --- controls: one function per type, from the description of a control to its element ---

function labelled(control, input, ...after) {
  return node("label", { class: "mtvm-control" }, control.label, input, ...after);
}

const CONTROLS = {
  Slider(c, tell) {
    const shown = node("output");
    const input = node("input", {
      type: "range", min: c.low, max: c.high, step: c.step, "data-name": c.name,
      oninput: () => {
        shown.textContent = input.value;
        tell(c.name, Number(input.value), true);
      },
    });
    return labelled(c, input, shown);
  },
  Button(c, tell) {
    const act = () => tell(c.name, null);
    return node("button", { type: "button", "data-name": c.name, onclick: act }, c.label);
  },
  Select(c, tell) {
    const options = c.options.map((o) => node("option", {}, o));
    const input = node("select", {
      "data-name": c.name, onchange: () => tell(c.name, input.value),
    }, ...options);
    return labelled(c, input);
  },
  Toggle(c, tell) {
    const input = node("input", {
      type: "checkbox", "data-name": c.name, onchange: () => tell(c.name, input.checked),
    });
    return labelled(c, input);
  },
  TextInput(c, tell) {
    const input = node("input", {
      type: "text", size: c.columns, "data-name": c.name,
      onchange: () => tell(c.name, input.value),
      onkeydown: (e) => { // in JupyterLab, Enter alone does not send the text; losing focus does
        if (e.key !== "Enter") return;
        input.blur();
        input.focus();
      },
    });
    return labelled(c, input);
  },
};

// --- the widget ---

function render({ model, el }) {
  const bar = node("div", { class: "mtvm-bar", role: "toolbar" });
  const stage = node("div", { class: "mtvm-stage", tabindex: 0, role: "application" });
  const player = node("div", { class: "mtvm-player" });
  const panels = node("div", { class: "mtvm-panels" });
  const message = node("div", { class: "mtvm-message", role: "status", "aria-live": "polite" });
  const left = node("div", { class: "mtvm-left" }, stage, player);
  const body = node("div", { class: "mtvm-body" }, left, panels);
  const root = node("div", { class: "mtvm-visual" }, bar, message, body);
  el.append(root);

  let view = {}; // what Python sent last
  let found = new Map(); // key -> its elements
  let frame = 0; // the frame that is shown
  let spots = new Map(); // key -> the frame that it shows when pointed at
  let since = new Map(); // key -> the first frame that marks it, other than as `now`
  let previewed = false; // whether another frame is shown while the mouse points at its key
  let timer = 0; // the timer of the player; 0 while it is paused
  let selected = ""; // the selected key
  let pinned = ""; // the key whose links stay lit
  let held = null; // the pressed or dragged key and its pointer: {key, x, y, moved, to}

  // One event is under way at a time; of the values of a slider that wait, only the latest is sent.
  const queue = []; // events that wait
  let asked = 0; // when the event under way was sent; 0 if there is none
  let answer = 0; // the number of the last answered event

  function tell(name, value, moving = false) {
    const last = queue.at(-1);
    if (moving && last?.moving && last.name === name) last.value = value;
    else queue.push({ name, value, selected, moving });
    flush();
  }

  function flush() {
    if (!queue.length || (asked && performance.now() - asked < PATIENCE)) return;
    asked = performance.now();
    const { moving, ...event } = queue.shift();
    model.send(event);
    setTimeout(flush, PATIENCE + 1); // the kernel may be gone, or busy with a cell
  }

  function answered() {
    if (view.answered === answer) return; // drawn for another reason
    answer = view.answered;
    asked = 0;
    flush();
  }

  const find = (key) => found.get(key) ?? [];
  const selectable = () =>
    view.selectable ? [...stage.querySelectorAll(`[data-key^="${view.selectable}"]`)] : [];
  const keyAt = (target) => target.closest?.("[data-key]")?.dataset.key ?? "";
  const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

  function unmark(name) {
    for (const e of root.querySelectorAll(`.${name}`)) e.classList.remove(name);
  }

  // --- links and selection ---

  function light(key) {
    unmark("mtvm-linked");
    if (!key) return;
    for (const other of [key, ...(view.links[key] ?? [])])
      for (const e of find(other)) e.classList.add("mtvm-linked");
  }

  function select(key, scroll = false) {
    selected = key;
    pinned = key;
    unmark("mtvm-selected");
    for (const e of find(key)) if (stage.contains(e)) e.classList.add("mtvm-selected");
    stage.setAttribute("aria-label", [view.title, selected, HELP].filter(Boolean).join("; "));
    light(pinned);
    const line = scroll && panels.querySelector(".mtvm-linked");
    if (line) panel_scroll(line);
  }

  function panel_scroll(line) { // scroll the panel only: the notebook must not jump
    const box = line.parentElement;
    const above = line.offsetTop < box.scrollTop;
    if (above || line.offsetTop + line.offsetHeight > box.scrollTop + box.clientHeight)
      box.scrollTop = line.offsetTop - box.clientHeight / 3;
  }

  // --- frames ---

  function show(n, preview = false) { // a preview does not change `frame`
    const at = Math.max(0, Math.min(n, view.frames.length - 1));
    if (!preview) frame = at;
    previewed = preview;
    for (const e of root.querySelectorAll("[data-mark]")) delete e.dataset.mark;
    if (!view.frames.length) return;
    const mark = (key, kind) => find(key).forEach((e) => (e.dataset.mark = kind));
    if (view.trail) for (const [key, first] of since) if (first < at) mark(key, view.trail);
    const { marks, caption } = view.frames[at];
    for (const [key, kind] of Object.entries(marks)) mark(key, kind);
    player.querySelector("input").value = at;
    player.querySelector(".mtvm-count").textContent = `${at + 1} / ${view.frames.length}`;
    player.querySelector(".mtvm-caption").textContent = caption;
    const line = panels.querySelector("[data-mark]");
    if (line) panel_scroll(line);
  }

  function play(on) {
    clearInterval(timer);
    timer = 0;
    if (on && view.frames.length) {
      if (frame === view.frames.length - 1) show(0);
      const pace = Math.max(FASTEST, Math.min(SLOWEST, WHOLE / view.frames.length));
      timer = setInterval(() => {
        show(frame + 1);
        if (frame === view.frames.length - 1) play(false);
      }, still() ? 4 * SLOWEST : pace);
    }
    const button = player.querySelector("[data-name=play]");
    button?.replaceChildren(icon(timer ? "pause" : "next"), timer ? " pause" : " play");
  }

  function step(n) {
    play(false);
    show(n);
  }

  function drawPlayer() {
    const button = (name, title, act) => node("button", {
      type: "button", "data-name": name, title, "aria-label": title, onclick: act,
    }, icon(name));
    const slide = node("input", {
      type: "range", min: 0, max: Math.max(0, view.frames.length - 1), "data-name": "frame",
      "aria-label": "frame", oninput: () => step(Number(slide.value)),
    });
    const parts = [
      button("back", "one frame back", () => step(frame - 1)),
      button("play", "play or pause (Space)", () => play(!timer)), // play() labels it
      button("next", "one frame on", () => step(frame + 1)),
      slide, node("span", { class: "mtvm-count" }),
      node("div", { class: "mtvm-caption" }),
    ];
    player.replaceChildren(...(view.frames.length ? parts : []));
  }

  // --- drawing what Python sent ---

  function drawPanels() {
    const place = [...panels.querySelectorAll(".mtvm-lines")].map((p) => p.scrollTop);
    panels.replaceChildren(...view.panels.map((p) => node("div", { class: "mtvm-panel" },
      node("div", { class: "mtvm-title" }, p.title),
      node("div", { class: "mtvm-lines", tabindex: 0, role: "region", "aria-label": p.title },
        ...p.lines.map((line) => node("div", {
          class: `mtvm-line ${line.note}`, "data-key": line.key || undefined,
        }, line.text || " "))))));
    [...panels.querySelectorAll(".mtvm-lines")].forEach((p, n) => (p.scrollTop = place[n] ?? 0));
    for (const now of panels.querySelectorAll(".mtvm-line.now")) panel_scroll(now);
  }

  function drawBar() { // unchanged controls keep their elements: the mouse may be dragging one
    const now = JSON.stringify(view.controls.map((c) => [c.type, c.name, c.label, c.options]));
    if (bar.dataset.controls !== now)
      bar.replaceChildren(...view.controls.map((c) => CONTROLS[c.type](c, tell)),
        node("button", { type: "button", class: "mtvm-keys", title: HELP, onclick: help }, "keys"));
    bar.dataset.controls = now;
    for (const c of view.controls) {
      const e = bar.querySelector(`[data-name="${c.name}"]`);
      if (queue.some((event) => event.name === c.name)) continue; // it was moved on since
      if (c.type === "Slider") Object.assign(e, { min: c.low, max: c.high, step: c.step });
      if (c.type === "Button") [e.disabled, e.title] = [!c.enabled, c.tip];
      else if (c.type === "Toggle") e.checked = c.value;
      else if (e.type !== "text" || e !== document.activeElement) e.value = c.value; // unless typing
      if (c.type === "Slider") e.nextSibling.textContent = c.value;
    }
  }

  function say(text, refused) {
    message.textContent = text;
    message.classList.toggle("mtvm-refused", refused);
  }

  function help() { // in place of the message, until the button is pressed again
    if (message.textContent === HELP) say(view.message, view.refused);
    else say(HELP, false);
  }

  function draw() {
    const focus = document.activeElement;
    const name = root.contains(focus) ? focus.dataset.name : undefined;
    const fresh = !view.svg;
    const [frames, panelled] = [view.frames, view.panels].map((part) => JSON.stringify(part));
    view = model.get("view");
    let marks = {};
    for (const f of view.frames) marks = f.marks ??= changed(marks, f.changes);
    drawBar();
    stage.innerHTML = view.svg;
    const picture = stage.querySelector("svg");
    picture.style.minWidth = `${LEAST * picture.viewBox.baseVal.width}px`;
    stage.classList.toggle("mtvm-draggable", view.draggable);
    panels.classList.toggle("mtvm-beside", view.beside);
    view.title = picture.getAttribute("aria-label");
    if (JSON.stringify(view.panels) !== panelled) drawPanels();
    found = new Map();
    for (const e of root.querySelectorAll("[data-key]"))
      found.set(e.dataset.key, [...(found.get(e.dataset.key) ?? []), e]);
    say(view.message, view.refused);
    if (fresh || JSON.stringify(view.frames) !== frames) {
      since = new Map();
      spots = new Map(view.frames.flatMap((f, n) => (f.at ? [[f.at, n]] : [])));
      view.frames.forEach((f, n) => Object.entries(f.marks).forEach(([key, kind]) => {
        if (kind !== "now" && !since.has(key)) since.set(key, n);
      }));
      drawPlayer();
      play(false);
      frame = view.first;
    }
    show(frame);
    select(view.selected);
    answered();
    if (name) root.querySelector(`[data-name="${name}"]`)?.focus({ preventScroll: true });
  }

  // --- mouse and touch: hover lights links and previews frames; click selects; dragging moves ---

  function point(key) {
    if (held || timer) return;
    if (spots.has(key)) show(spots.get(key), true);
    else if (previewed) show(frame);
    light(key || pinned);
  }
  root.addEventListener("pointerover", (e) => point(keyAt(e.target)));
  root.addEventListener("pointerleave", () => point(""));

  function chosen(key) { // `key` or, if it is not selectable, a selectable key linked to it
    if (!view.selectable || key.startsWith(view.selectable)) return key;
    return (view.links[key] ?? []).find((other) => other.startsWith(view.selectable)) ?? key;
  }

  // panels side by side show aligned rows, so they scroll together
  let echo = null; // the panel whose next scroll event was caused by scrolling another one
  panels.addEventListener("scroll", ({ target }) => {
    const own = target !== echo;
    echo = null;
    for (const other of view.beside && own ? panels.querySelectorAll(".mtvm-lines") : []) {
      const was = [other.scrollTop, other.scrollLeft];
      [other.scrollTop, other.scrollLeft] = [target.scrollTop, target.scrollLeft];
      if (was[0] !== other.scrollTop || was[1] !== other.scrollLeft) echo = other;
    }
  }, true);

  panels.addEventListener("click", (e) => {
    const key = keyAt(e.target);
    if (key) press(chosen(key));
  });

  function press(key) {
    select(key, true);
    tell("click", key);
  }

  const dropTarget = (e) => document.elementsFromPoint(e.clientX, e.clientY).map(keyAt)
    .find((key) => key.startsWith(view.selectable) && key !== held.key);

  stage.addEventListener("pointerdown", (e) => {
    const key = keyAt(e.target);
    if (e.button !== 0 || !key) return;
    held = { key, x: e.clientX, y: e.clientY, moved: false, to: undefined };
  });
  stage.addEventListener("pointermove", (e) => {
    if (!held || !view.draggable || !held.key.startsWith(view.selectable)) return;
    if (Math.hypot(e.clientX - held.x, e.clientY - held.y) < 5 && !held.moved) return;
    held.moved = true;
    stage.setPointerCapture?.(e.pointerId);
    root.classList.add("mtvm-dragging");
    unmark("mtvm-drop");
    held.to = dropTarget(e);
    if (held.to) for (const t of find(held.to)) t.classList.add("mtvm-drop");
  });
  function drop(e) {
    const was = held;
    held = null;
    root.classList.remove("mtvm-dragging");
    unmark("mtvm-drop");
    if (!was || e.type === "pointercancel") return;
    if (was.moved && was.to) {
      select(was.key);
      tell("drag", [was.key, was.to]);
    } else if (!was.moved && spots.has(was.key)) step(spots.get(was.key));
    else if (!was.moved) press(chosen(was.key));
  }
  stage.addEventListener("pointerup", drop);
  stage.addEventListener("pointercancel", drop);

  // --- keyboard ---

  function walk(by) { // select the next or previous selectable key
    const keys = [...new Set(selectable().map((e) => e.dataset.key))];
    const now = keys.indexOf(selected);
    if (keys.length) select(keys[Math.max(0, Math.min(keys.length - 1, now + by))], true);
  }

  function move(by) { // drag the selected key onto the next or previous one
    const keys = [...new Set(selectable().map((e) => e.dataset.key))];
    const to = keys[keys.indexOf(selected) + by];
    if (view.draggable && selected && to) tell("drag", [selected, to]);
  }

  function row(by) { // show the frame in the same column, `by` rows further down in the grid
    const to = frame + by * view.columns;
    if (to >= 0 && to < view.frames.length) step(to);
  }

  const vertical = (e, by) => (view.columns ? row(by) : e.altKey ? move(by) : walk(by));
  const KEYS = {
    ArrowUp: (e) => vertical(e, -1),
    ArrowDown: (e) => vertical(e, 1),
    ArrowLeft: () => step(frame - 1),
    ArrowRight: () => step(frame + 1),
    Home: () => step(0),
    End: () => step(view.frames.length - 1),
    " ": () => play(!timer),
    Enter: () => selected && tell("click", selected),
  };
  stage.addEventListener("keydown", (e) => {
    const act = e.ctrlKey || e.metaKey ? undefined : KEYS[e.key];
    if (!act) return;
    e.preventDefault();
    e.stopPropagation();
    act(e);
  });

  model.on("change:view", draw);
  draw();
  return () => {
    play(false);
    model.off("change:view", draw);
  };
}

export default { render };
