// What a person would see to be wrong with how a page looks, each in words.
() => {
  const wrong = [];
  const wide = document.documentElement.clientWidth;
  const unseen = ".unseen, .skip, .leaflet-container, svg, noscript, [hidden], option, datalist";
  const isHidden = (each) => each.closest(unseen) || !each.getClientRects().length;
  const called = (each) => `${each.tagName.toLowerCase()}.${each.className} ${(each.textContent || each.id).trim().slice(0, 40)}`;

  if (document.documentElement.scrollWidth > wide) wrong.push(`the page is ${document.documentElement.scrollWidth} wide`);

  for (const each of document.body.querySelectorAll("*")) {
    if (isHidden(each)) continue;
    const box = each.getBoundingClientRect();
    const style = getComputedStyle(each);
    if (box.right > wide + 1 || box.left < -1) wrong.push(`beyond the window: ${called(each)}`);
    const scrolls = ["INPUT", "SELECT"].includes(each.tagName);
    if (style.overflowX !== "visible" && !scrolls && each.scrollWidth > each.clientWidth + 1) wrong.push(`clipped: ${called(each)}`);
    // A link within a sentence may be as high as its line; one that stands alone is a target of its own.
    const isTarget = each.matches("a, button, select, summary, input:not([type=hidden])") && style.display !== "inline";
    if (isTarget && (box.height < 23.5 || box.width < 23.5)) wrong.push(`small: ${called(each)} ${box.width} x ${box.height}`);
    if (each.matches("td a, th a, nav a, dd > a:only-child") && style.display === "inline") wrong.push(`small: ${called(each)}`);
  }

  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  for (let node; (node = walk.nextNode());) {
    if (isHidden(node.parentElement) || node.parentElement.closest(".long, code")) continue;
    // A word may break at a hyphen or a slash, a longer one where it must, and Chinese anywhere.
    for (const found of node.data.matchAll(/[\p{L}\p{N}.,:]+/gu)) {
      if (found[0].length > 20 || /\p{Script=Han}/u.test(found[0])) continue;
      range.setStart(node, found.index);
      range.setEnd(node, found.index + found[0].length);
      const lines = new Set([...range.getClientRects()].map((each) => Math.round(each.top)));
      if (lines.size > 1) wrong.push(`split: ${found[0]} in ${called(node.parentElement)}`);
    }
  }
  return [...new Set(wrong)].slice(0, 20);
}
