// The log by lines: only what is on the screen is in the page, whatever the log's length. Evidence is marked, repetitions are folded,
// #L25 and #L25-L30 (#F2L25 in the second file) lead to lines.
"use strict";
(() => {
  const ROW = 20;
  const PAGE = 500;
  const TALLEST = 8_000_000; // pixels; browsers lay out no taller box exactly, longer logs are scrolled in proportion
  const root = document.querySelector(".viewer");
  if (!root) return;
  const box = root.querySelector(".viewer-box");
  const space = root.querySelector(".viewer-space");
  const words = root.dataset;
  const marks = JSON.parse(words.marks);
  const files = new Map();
  let current = null;
  let chosen = [0, 0];

  const say = (text, values) => text.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);

  async function load(place) {
    if (files.has(place)) return files.get(place);
    const answer = await fetch(`${words.log}?input=${place}&first=1&count=${PAGE}`);
    if (!answer.ok) throw new Error(String(answer.status));
    const first = await answer.json();
    const marked = new Map(marks.filter((mark) => mark[0] === place).map((mark) => [mark[1], mark[2]]));
    const file = { place, total: first.total, pages: new Map([[0, first.lines]]), asked: new Set(), marked, folds: [] };
    const lines = [...marked.keys()].sort((a, b) => a - b);
    for (const [from, to, kind] of first.folds) {
      // A line that matters is not folded away.
      let start = from;
      for (const line of lines.filter((number) => number >= from && number <= to)) {
        if (line - 1 - start >= 2) file.folds.push([start, line - 1, kind]);
        start = line + 1;
      }
      if (to - start >= 2) file.folds.push([start, to, kind]);
    }
    files.set(place, file);
    return file;
  }

  // Rows are lines and folds; `before` of a fold is the row at which it stands.
  function rows(file) {
    let hidden = 0;
    file.index = file.folds.map(([from, to, kind]) => {
      const entry = { row: from - 1 - hidden, from, to, kind };
      hidden += to - from;
      return entry;
    });
    file.rows = file.total - hidden;
    file.height = Math.min(file.rows * ROW, TALLEST);
    space.style.height = `${file.height}px`;
  }

  function at(file, row) {
    let low = 0, high = file.index.length;
    while (low < high) { const middle = (low + high) >> 1; if (file.index[middle].row <= row) low = middle + 1; else high = middle; }
    const fold = file.index[low - 1];
    if (!fold) return { line: row + 1 };
    return fold.row === row ? { fold } : { line: fold.to + row - fold.row };
  }

  function rowOf(file, line) {
    let row = line - 1;
    for (const fold of file.index) {
      if (fold.to < line) row -= fold.to - fold.from;
      else if (fold.from <= line) return fold.row;
      else break;
    }
    return row;
  }

  const visible = () => Math.ceil(box.clientHeight / ROW) + 1;
  const stretch = (file) => Math.max(file.rows * ROW - box.clientHeight, 1) / Math.max(file.height - box.clientHeight, 1);

  function page(file, number) {
    if (file.pages.has(number)) return file.pages.get(number);
    if (!file.asked.has(number)) {
      file.asked.add(number);
      fetch(`${words.log}?input=${file.place}&first=${number * PAGE + 1}&count=${PAGE}`)
        .then((answer) => (answer.ok ? answer.json() : Promise.reject(new Error(String(answer.status)))))
        .then((answer) => { file.pages.set(number, answer.lines); if (file.pages.size > 60) forget(file, number); draw(); })
        .catch(() => { file.asked.delete(number); });
    }
    return null;
  }

  function forget(file, keep) {
    for (const number of file.pages.keys()) {
      if (Math.abs(number - keep) > 20) { file.pages.delete(number); file.asked.delete(number); }
      if (file.pages.size <= 40) break;
    }
  }

  const hashOf = (file, line) => (file.place ? `#F${file.place + 1}L${line}` : `#L${line}`);

  function lineRow(file, line) {
    const row = document.createElement("div");
    const link = document.createElement("a");
    link.href = hashOf(file, line);
    link.textContent = String(line);
    link.tabIndex = -1;
    link.setAttribute("aria-label", say(words.line, { number: line }));
    row.append(link, document.createElement("span"));
    return row;
  }

  function fill(file, line, row) {
    const kind = file.marked.get(line);
    row.className = `viewer-row${kind ? ` ${kind}` : ""}${line >= chosen[0] && line <= chosen[1] ? " chosen" : ""}`;
    const number = Math.floor((line - 1) / PAGE);
    const lines = page(file, number);
    const text = lines ? lines[line - 1 - number * PAGE] ?? "" : "…";
    if (row.lastChild.textContent !== text) row.lastChild.textContent = text;
  }

  function foldRow(file, fold) {
    const row = document.createElement("div");
    row.className = "viewer-row fold";
    const count = (fold.to - fold.from + 1).toLocaleString("en");
    if (fold.kind === "left_out") {
      const text = document.createElement("span");
      text.textContent = `⋯ ${say(words.leftOut, { count })}`;
      row.append(text);
      return row;
    }
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `⋯ ${say(words.repeated, { count })}`;
    button.addEventListener("click", () => { unfold(file, fold.from); box.focus(); });
    row.append(button);
    return row;
  }

  function unfold(file, line) {
    file.folds = file.folds.filter(([from, to, kind]) => kind === "left_out" || line < from || line > to);
    rows(file);
    draw();
  }

  // Rows that stay on the screen stay in the page: one that is replaced under the pointer loses its click, and a selection.
  let shown = new Map();
  let shownFile = null;
  function put(drawn) {
    for (const [key, element] of shown) if (!drawn.has(key)) element.remove();
    let next = space.firstChild;
    for (const element of drawn.values()) {
      if (element === next) next = next.nextSibling;
      else space.insertBefore(element, next);
    }
    shown = drawn;
  }

  let waiting = false;
  function draw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      const file = current;
      if (!file) return;
      const real = box.scrollTop * (file.height < file.rows * ROW ? stretch(file) : 1);
      const first = Math.max(0, Math.floor(real / ROW) - 4);
      const last = Math.min(file.rows, first + visible() + 8);
      const shift = box.scrollTop - real;
      if (shownFile !== file) put(new Map());
      shownFile = file;
      const drawn = new Map();
      for (let row = first; row < last; row += 1) {
        const { fold, line } = at(file, row);
        const key = fold ? `${fold.from}-${fold.to}` : line;
        const element = shown.get(key) ?? (fold ? foldRow(file, fold) : lineRow(file, line));
        if (!fold) fill(file, line, element);
        element.style.top = `${row * ROW + shift}px`;
        drawn.set(key, element);
      }
      put(drawn);
    });
  }

  function scrollTo(file, line) {
    const row = rowOf(file, line) * ROW - box.clientHeight / 3;
    box.scrollTop = row / (file.height < file.rows * ROW ? stretch(file) : 1);
    draw();
  }

  let latest = 0;
  async function open(place) {
    let file;
    latest = place;
    try {
      file = await load(place);
    } catch {
      root.querySelector("[data-count]").textContent = words.failed;
      return null;
    }
    if (latest !== place) return null; // another file was asked for meanwhile
    current = file;
    const select = root.querySelector("[data-input]");
    if (select) select.value = String(place);
    root.querySelector("[data-goto]").max = current.total;
    rows(current);
    draw();
    return current;
  }

  async function go(place, from, to = from) {
    const file = latest === place && current && current.place === place ? current : await open(place);
    if (!file) return;
    chosen = [from, to];
    if (file.folds.some(([first, last, kind]) => kind !== "left_out" && first <= from && from <= last)) unfold(file, from);
    scrollTo(file, from);
  }

  const HASH = /^#(?:F(\d+))?L(\d+)(?:-L?(\d+))?$/;
  async function follow() {
    const found = HASH.exec(window.location.hash);
    if (!found) return false;
    await go(found[1] ? Number(found[1]) - 1 : 0, Number(found[2]), Number(found[3] || found[2]));
    document.getElementById("log").scrollIntoView({ block: "start" });
    return true;
  }

  function step(direction) {
    if (!current) return;
    const lines = [...current.marked.keys()].sort((a, b) => a - b);
    const now = chosen[0];
    const next = direction > 0 ? lines.find((line) => line > now) ?? lines[0] : [...lines].reverse().find((line) => line < now) ?? lines[lines.length - 1];
    if (next) { go(current.place, next); history.replaceState(null, "", hashOf(current, next)); }
  }

  async function start() {
    root.hidden = false;
    const list = document.querySelector("[data-cited]");
    const before = marks.find((mark) => mark[2] === "proof");
    const opened = window.location.hash;
    if (!(await follow())) await open(before ? before[0] : 0);
    if (!current) { root.hidden = true; return; }
    // The list of cited lines is what is shown without a script; its ids would catch the links.
    if (list) list.remove();
    window.addEventListener("hashchange", follow);
    // A line may have been chosen while the log was on its way.
    if (!HASH.test(window.location.hash)) { if (before) scrollTo(current, before[1]); }
    else if (window.location.hash !== opened) follow();
    // A link to the line that the address already names changes nothing, and is still meant.
    document.addEventListener("click", (event) => {
      const link = event.target.closest('a[href^="#"]');
      if (link && HASH.test(link.getAttribute("href")) && link.getAttribute("href") === window.location.hash) { event.preventDefault(); follow(); }
    });
    box.addEventListener("scroll", draw, { passive: true });
    new ResizeObserver(draw).observe(box);
    root.querySelector("[data-goto]").addEventListener("change", (event) => {
      const line = Math.min(Math.max(Number(event.target.value) || 1, 1), current.total);
      go(current.place, line);
      history.replaceState(null, "", hashOf(current, line));
    });
    root.querySelector("[data-next]").addEventListener("click", () => step(1));
    root.querySelector("[data-previous]").addEventListener("click", () => step(-1));
    const select = root.querySelector("[data-input]");
    if (select) select.addEventListener("change", async () => { chosen = [0, 0]; await open(Number(select.value)); box.scrollTop = 0; });
  }

  start();
})();
