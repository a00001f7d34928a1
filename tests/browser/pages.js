// What cannot be read in the widgets and the feedback of this page, as a list of sentences.

function illegible() {
  const LINES = ["k-line", "k-dashed", "k-axis", "k-arrow", "k-removed"];
  const found = [];

  function rgba(colour) {
    const parts = (colour.match(/[\d.]+/g) ?? ["0", "0", "0", "0"]).map(Number);
    return parts.length === 3 ? [...parts, 1] : parts;
  }
  function luminance(colour) {
    const [r, g, b] = rgba(colour).slice(0, 3).map((c) => {
      const x = c / 255;
      return x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }
  function contrast(a, b) {
    const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  }
  function behind(element) { // the colour of the page behind an element
    for (let e = element; e; e = e.parentElement) {
      const ground = getComputedStyle(e).backgroundColor;
      if (rgba(ground)[3] > 0.5) return ground;
    }
    return "rgb(255, 255, 255)";
  }
  const said = (e) => e.textContent.trim().slice(0, 40);

  // --- pictures: the ground of a point is the last filled shape below it ---

  function ground(svg, shapes, upto, at) {
    for (let n = upto - 1; n >= 0; n--) {
      const fill = getComputedStyle(shapes[n]).fill;
      if (fill !== "none" && rgba(fill)[3] > 0.5 && shapes[n].isPointInFill(at)) return fill;
    }
    return behind(svg);
  }
  function inSvg(svg, x, y) {
    return new DOMPoint(x, y).matrixTransform(svg.getScreenCTM().inverse());
  }
  for (const svg of document.querySelectorAll(".mtvm-stage svg")) {
    const title = svg.getAttribute("aria-label");
    const [, , wide, high] = svg.getAttribute("viewBox").split(" ").map(Number);
    const all = [...svg.querySelectorAll("rect, circle, path, text")];
    const shapes = all.filter((e) => e.tagName !== "text");
    let upto = 0;
    for (const e of all) {
      const style = getComputedStyle(e);
      if (e.tagName !== "text") {
        upto++;
        if (!LINES.some((k) => e.classList.contains(k)) || e.style.fill !== "none") continue;
        const length = e.getTotalLength();
        for (const part of [0.25, 0.5, 0.75]) {
          const under = ground(svg, shapes, upto - 1, e.getPointAtLength(length * part));
          if (contrast(style.stroke, under) < 3)
            found.push(`${title}: line ${e.getAttribute("class")}: ${style.stroke} on ${under}`);
        }
      } else if (style.fill !== "none" && said(e)) {
        const box = e.getBoundingClientRect();
        const corners = [inSvg(svg, box.left, box.top), inSvg(svg, box.right, box.bottom)];
        if (corners[0].x < -1 || corners[0].y < -1 || corners[1].x > wide + 1 || corners[1].y > high + 1)
          found.push(`${title}: cut at the edge: ${said(e)}`);
        const middle = inSvg(svg, (box.left + box.right) / 2, (box.top + box.bottom) / 2);
        const under = ground(svg, shapes, upto, middle);
        if (contrast(style.fill, under) < 4.5)
          found.push(`${title}: ${said(e)}: ${style.fill} on ${under}`);
      }
    }
  }

  // --- around the pictures, and feedback ---

  for (const root of document.querySelectorAll(".mtvm-visual, .mtvm-predict, .jp-RenderedHTMLCommon [role=note]"))
    for (const e of root.querySelectorAll("*")) {
      const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
      if (!own || e.closest("svg") || e.disabled || e.tagName === "OPTION") continue;
      const [colour, under] = [getComputedStyle(e).color, behind(e)];
      if (contrast(colour, under) < 4.5) found.push(`${said(e)}: ${colour} on ${under}`);
    }
  return found;
}
