// The browser side of a prediction. Python sends
//
//   question   {kind, prompt, unit, options, x, low, high, log}; kind "" only offers "Show me"
//   result     {answer, text, bounds: [[lowest, highest right number]]}, or {} while the block runs
//   failed     whether the block has failed
//
// and is told `guess` (a number, an option, or a number for each x) and `answer_display`. The latter
// shows the answer below, without the kernel.

const SVG = "http://www.w3.org/2000/svg";
const [WIDE, HIGH, LEFT, RIGHT, TOP, BOTTOM] = [520, 240, 78, 16, 12, 30];
const [HIDDEN, SHOWN] = ["none", "block"];

function node(tag, attributes = {}, ...inside) {
  const drawn = ["svg", "line", "path", "circle", "rect", "text", "g"].includes(tag);
  const made = drawn ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== false && value !== undefined) made.setAttribute(name, value);
  }
  // JupyterLab looks at the focused element, so each focusable element needs the attribute
  if (made.tabIndex >= 0) made.setAttribute("data-lm-suppress-shortcuts", "true");
  made.append(...inside);
  return made;
}

function coded(text) { // `names` in backticks are code
  return text.split("`").map((part, n) => (n % 2 ? node("code", {}, part) : part));
}

const short = (n) => {
  const shown = n === Math.round(n) ? n : Number(n.toPrecision(3));
  return Math.abs(shown) >= 1000 ? shown.toLocaleString("en") : String(shown);
};

// --- controls: each returns {element, value(), set(guess), freeze(answer or undefined), why} ---

function numberControl(q, name) {
  const field = node("input", {
    type: "text", inputmode: "decimal", autocomplete: "off", "aria-label": name, "data-name": "guess",
  });
  return {
    element: node("span", {}, field, q.unit ? ` ${q.unit}` : ""),
    value() {
      const text = field.value.replaceAll(",", "").trim();
      return text && Number.isFinite(Number(text)) ? Number(text) : undefined;
    },
    set: (guess) => (field.value = guess === null ? "" : short(guess).replaceAll(",", "")),
    freeze: (answer) => (field.disabled = answer !== undefined),
    why: "Type a number first, or press \u201cShow me\u201d.",
  };
}

function choiceControl(q, name, id) {
  const inputs = q.options.map((value) => node("input", { type: "radio", name: id, value }));
  const labels = q.options.map((option, n) =>
    node("label", { class: "mtvm-option" }, inputs[n], node("span", {}, ...coded(option))));
  return {
    element: node("fieldset", { role: "radiogroup", "aria-label": name }, ...labels),
    value: () => inputs.find((input) => input.checked)?.value,
    set: (guess) => inputs.forEach((input) => (input.checked = input.value === guess)),
    freeze: (answer) => inputs.forEach((input) => (input.disabled = answer !== undefined)),
    why: "Choose one first, or press \u201cShow me\u201d.",
  };
}

function ticks(q) {
  if (!q.log) {
    const raw = (q.high - q.low) / 4;
    const ten = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map((n) => n * ten).find((n) => n >= raw * 0.999);
    const first = Math.ceil(q.low / step - 1e-9);
    const count = Math.floor(q.high / step + 1e-9) - first + 1;
    return Array.from({ length: count }, (_, n) => (first + n) * step);
  }
  const [low, high] = [Math.ceil(Math.log10(q.low) - 1e-9), Math.floor(Math.log10(q.high) + 1e-9)];
  return Array.from({ length: high - low + 1 }, (_, n) => 10 ** (low + n));
}

function curveControl(q, name) {
  const scale = q.log ? Math.log : (y) => y;
  const unscale = q.log ? Math.exp : (y) => y;
  const [low, high] = [scale(q.low), scale(q.high)];
  const across = (n) => LEFT + 20 + (n * (WIDE - LEFT - RIGHT - 40)) / (q.x.length - 1);
  const down = (y) => TOP + ((HIGH - TOP - BOTTOM) * (high - scale(y))) / (high - low);
  const clamp = (y) => Math.min(q.high, Math.max(q.low, y));
  const line = (ys) => "M" + ys.map((y, n) => `${across(n)} ${down(clamp(y))}`).join("L");
  const values = q.x.map(() => unscale((low + high) / 2));
  let frozen = false;

  const path = node("path", { class: "mtvm-guess-line" });
  const below = node("g");
  const handles = q.x.map((label, n) => node("circle", {
    class: "mtvm-handle", r: 7, cx: across(n), tabindex: 0, role: "slider", "aria-orientation": "vertical",
    "aria-label": `${name} at ${label}`, "aria-valuemin": q.low, "aria-valuemax": q.high,
    "data-name": `x${n}`, onkeydown: (e) => key(e, n),
  }));
  for (const handle of handles) handle.setAttribute("data-lm-suppress-shortcuts", "true");
  const svg = node("svg", {
    viewBox: `0 0 ${WIDE} ${HIGH}`, role: "group", "aria-label": name,
    onpointerdown: (e) => { svg.setPointerCapture(e.pointerId); pull(e); },
    onpointermove: (e) => { if (e.buttons) pull(e); },
  },
  ...ticks(q).flatMap((y) => [
    node("line", { class: "mtvm-grid", x1: LEFT, x2: WIDE - RIGHT, y1: down(y), y2: down(y) }),
    node("text", { x: LEFT - 8, y: down(y) + 4, "text-anchor": "end" }, short(y)),
  ]),
  node("line", { class: "mtvm-axis", x1: LEFT, x2: WIDE - RIGHT, y1: HIGH - BOTTOM, y2: HIGH - BOTTOM }),
  ...q.x.map((label, n) =>
    node("text", { x: across(n), y: HIGH - BOTTOM + 18, "text-anchor": "middle" }, label)),
  path, below, ...handles);

  function put(n, y) {
    values[n] = clamp(y);
    handles[n].setAttribute("cy", down(values[n]));
    handles[n].setAttribute("aria-valuenow", Number(values[n].toPrecision(3)));
    handles[n].setAttribute("aria-valuetext", `${short(Number(values[n].toPrecision(3)))}`);
    path.setAttribute("d", line(values));
  }
  function pull(e) { // the handle nearest to the pointer follows it: one sweep draws the curve
    if (frozen) return;
    const box = svg.getBoundingClientRect();
    const [x, y] = [((e.clientX - box.left) * WIDE) / box.width, ((e.clientY - box.top) * HIGH) / box.height];
    const gaps = q.x.map((_, n) => Math.abs(across(n) - x));
    const n = gaps.indexOf(Math.min(...gaps));
    put(n, unscale(high - ((high - low) * (y - TOP)) / (HIGH - TOP - BOTTOM)));
    handles[n].focus({ preventScroll: true });
  }
  function key(e, n) {
    const by = { ArrowUp: 1, ArrowDown: -1, PageUp: 5, PageDown: -5, Home: -100, End: 100 }[e.key];
    if (!by || frozen) return;
    e.preventDefault();
    e.stopPropagation();
    put(n, unscale(Math.min(high, Math.max(low, scale(values[n]) + (by * (high - low)) / 40))));
  }
  values.forEach((y, n) => put(n, y));
  return {
    element: node("div", { class: "mtvm-curve" }, q.unit ? node("div", {}, ...coded(q.unit)) : "", svg),
    value: () => values.map((y) => Number(y.toPrecision(3))),
    set: (guess) => guess?.forEach((y, n) => put(n, y)),
    freeze(answer) {
      frozen = answer !== undefined;
      svg.classList.toggle("mtvm-done", frozen);
      below.replaceChildren(...(Array.isArray(answer) ? [
        node("path", { class: "mtvm-answer-line", d: line(answer) }),
        ...answer.map((y, n) => node("rect", {
          class: "mtvm-answer-mark", x: across(n) - 5, y: down(clamp(y)) - 5, width: 10, height: 10,
        })),
      ] : []));
    },
    why: "",
  };
}

const CONTROLS = { number: numberControl, choice: choiceControl, curve: curveControl };

// --- the verdict ---

function off(answer, guess) { // the factor between two positive numbers; of curves, the median
  const [answers, guesses] = [[answer].flat(), [guess].flat()];
  if (Math.min(...answers, ...guesses) <= 0) return "";
  const factors = answers.map((a, n) => Math.max(a / guesses[n], guesses[n] / a)).sort((a, b) => a - b);
  const middle = (factors[(factors.length - 1) >> 1] + factors[factors.length >> 1]) / 2;
  const about = Number(middle.toPrecision(middle < 1.1 ? 3 : 2));
  return Array.isArray(answer) ? `a factor of ${about} off at the median point` : `a factor of ${about} off`;
}

function isRight(result, guess) {
  if (typeof guess === "string") return guess === result.answer;
  return [guess].flat().every((g, n) => result.bounds[n][0] <= g && g <= result.bounds[n][1]);
}

function verdict(q, result, guess) { // [text, whether the guess is right]
  const known = result.answer !== null && result.answer !== undefined;
  const curve = q.kind === "curve";
  if (guess === null)
    return [q.kind && known && !curve ? `No guess. The answer: ${result.text}.` : "", false];
  const said = typeof guess === "number" ? short(guess) : guess;
  if (!known) return [curve ? "" : `Your guess: ${said}.`, false];
  const right = isRight(result, guess);
  const how = right ? "right" : typeof guess === "string" ? "" : off(result.answer, guess);
  const both = curve ? "Your curve is solid, the answer dashed" : `Your guess ${said}, the answer ${result.text}`;
  return [`${both}${how ? `: ${how}` : ""}.`, right];
}

// --- the prompt ---

let count = 0;

function render({ model, el }) {
  const q = model.get("question");
  const name = q.prompt.replaceAll("`", "");
  const control = CONTROLS[q.kind]?.(q, name, `mtvm-predict-${count++}`);
  const guessButton = node("button", { type: "submit", class: "mtvm-go", "data-name": "go" }, "Guess");
  const button = (label, data, act) =>
    node("button", { type: "button", "data-name": data, onclick: act }, label);
  const showButton = button("Show me", "show", () => open(null));
  const againButton = button("Guess again", "again", again);
  const told = node("div", { class: "mtvm-verdict", role: "status", "aria-live": "polite" });
  const form = node("form", { novalidate: "", onsubmit: (e) => { e.preventDefault(); submit(); } },
    ...(q.prompt ? [node("span", { class: "mtvm-asked" }, "Predict: ", ...coded(q.prompt))] : []),
    ...(control ? [control.element, guessButton] : []), showButton, againButton);
  const root = node("div", { class: "mtvm-predict", role: "group", "aria-label": `Predict: ${name}` }, form, told);
  form.addEventListener("keydown", (e) => {
    if (e.key !== "Enter" || e.target.tagName === "BUTTON") return;
    e.preventDefault(); // JupyterLab would take it for its own
    e.stopPropagation();
    submit();
  });
  el.append(root);

  function submit() {
    if (model.get("answer_display") === SHOWN) return;
    const guess = control?.value();
    if (guess === undefined) say(control.why, false, true);
    else open(guess);
  }
  function open(guess) {
    model.set("guess", guess);
    model.set("answer_display", SHOWN);
    model.save_changes();
    againButton.focus({ preventScroll: true });
  }
  function again() {
    model.set("answer_display", HIDDEN);
    model.save_changes();
    root.querySelector("input, [role=slider]")?.focus({ preventScroll: true });
  }
  function say(text, right, refused = false) {
    told.replaceChildren(...coded(text));
    told.classList.toggle("mtvm-right", right);
    told.classList.toggle("mtvm-wrong-input", refused);
  }
  function draw() {
    const [result, guess] = [model.get("result"), model.get("guess")];
    const [opened, ready] = [model.get("answer_display") === SHOWN, "text" in model.get("result")];
    root.hidden = model.get("failed") || (opened && ready && !control);
    againButton.textContent = guess === null ? "Hide the answer" : "Guess again";
    guessButton.hidden = showButton.hidden = opened;
    againButton.hidden = !opened || !control;
    if (opened) control?.set(guess);
    control?.freeze(opened ? result.answer ?? null : undefined);
    if (!opened) say("", false);
    else if (!ready) say("The cell is still running. The answer follows.", false);
    else say(...verdict(q, result, guess));
  }
  const NAMES = "change:guess change:answer_display change:result change:failed";
  model.on(NAMES, draw);
  draw();
  return () => model.off(NAMES, draw);
}

export default { render };
