// Sorts and filters the table of pairs. The page is whole without it.
(() => {
  "use strict";
  const $ = id => document.getElementById(id), table = $("pairs");
  if (!table) return;
  const body = table.tBodies[0], rows = [...body.rows];
  const card = row => $(row.cells[0].firstChild.hash.slice(1));
  const texts = rows.map(row => row.textContent.toLowerCase());
  const show = () => {
    const words = $("find").value.toLowerCase().split(/\s+/).filter(Boolean), state = $("state").value;
    let count = 0;
    rows.forEach((row, i) => {
      const hide = (state && row.dataset.s !== state) || words.some(word => !texts[i].includes(word));
      row.hidden = card(row).hidden = hide;
      count += !hide;
    });
    $("count").value = `${count} of ${rows.length} shown`;
  };
  const key = cell => cell.dataset.v === undefined ? null : Number(cell.dataset.v);
  const order = (a, b) => {
    const x = key(a), y = key(b);
    if (x !== null && y !== null) return x - y;
    if (x !== null || y !== null) return x === null ? 1 : -1;
    const s = a.textContent, t = b.textContent;
    if (!s || !t) return s ? -1 : t ? 1 : 0;
    return s.localeCompare(t, "en", {numeric: true});
  };
  [...table.tHead.rows[0].cells].forEach((head, i) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      table.querySelectorAll("th").forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const empty = row => key(row.cells[i]) === null && !row.cells[i].textContent;
      const sorted = rows.map((row, n) => [row, n]).sort(([a, n], [b, m]) => {
        if (empty(a) !== empty(b)) return empty(a) ? 1 : -1;
        return (down ? -1 : 1) * order(a.cells[i], b.cells[i]) || n - m;
      });
      body.append(...sorted.map(([row]) => row));
    });
  });
  const all = open => rows.forEach(row => { if (!row.hidden) card(row).open = open; });
  const jump = () => {
    const found = location.hash && $(location.hash.slice(1));
    if (!found || found.tagName !== "DETAILS") return;
    found.hidden = false;
    found.open = true;
    found.scrollIntoView();
  };
  $("find").addEventListener("input", show);
  $("state").addEventListener("change", show);
  $("open").addEventListener("click", () => all(true));
  $("close").addEventListener("click", () => all(false));
  addEventListener("hashchange", jump);
  document.querySelector(".tools").hidden = false;
  show();
  jump();
})();
