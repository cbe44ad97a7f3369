// Texts whose boxes, clipped as they are seen, lie over each other (over), end beyond the window (out), or widen the page (wide).
const clipped = (element) => {
  const box = { left: 0, right: innerWidth, top: -Infinity, bottom: Infinity };
  for (let up = element; up && up !== document.body; up = up.parentElement) {
    const style = getComputedStyle(up);
    if (style.overflowX === "visible" && style.overflowY === "visible") continue;
    const edge = up.getBoundingClientRect();
    box.left = Math.max(box.left, edge.left); box.right = Math.min(box.right, edge.right);
    box.top = Math.max(box.top, edge.top); box.bottom = Math.min(box.bottom, edge.bottom);
  }
  return box;
};
const boxes = [], out = [];
const walker = document.createTreeWalker(document.querySelector("dialog[open]") ?? document.body, NodeFilter.SHOW_TEXT);
for (let node; (node = walker.nextNode());) {
  const owner = node.parentElement;
  if (!node.data.trim() || !owner.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
  if (owner.closest("script, style, option, nav, .skip, #vg-tooltip-element")) continue;
  const range = document.createRange();
  range.selectNodeContents(node);
  const clip = clipped(owner);
  for (const one of range.getClientRects()) {
    const box = { left: Math.max(one.left, clip.left), right: Math.min(one.right, clip.right),
      top: Math.max(one.top, clip.top), bottom: Math.min(one.bottom, clip.bottom), owner, said: node.data.trim().slice(0, 40) };
    if (one.right > innerWidth + 1 && clip.right > innerWidth - 1 && !owner.closest(".scroll")) out.push(box.said);
    if (box.right - box.left > 2 && box.bottom - box.top > 4) boxes.push(box);
  }
}
boxes.sort((a, b) => a.top - b.top);
const over = [];
boxes.forEach((one, k) => {
  for (let n = k + 1; n < boxes.length && boxes[n].top < one.bottom - 3; n += 1) {
    const two = boxes[n];
    const deep = Math.min(one.bottom, two.bottom) - two.top;
    const high = Math.min(one.bottom - one.top, two.bottom - two.top);
    const broad = Math.min(one.right, two.right) - Math.max(one.left, two.left);
    if (one.owner !== two.owner && deep > Math.max(3, 0.4 * high) && broad > 2) over.push(`${one.said} | ${two.said}`);
  }
});
const wide = document.documentElement.scrollWidth;
return { over, out, wide: wide > innerWidth ? [`the page is ${wide} wide`] : [] };
