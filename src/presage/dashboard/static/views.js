// The views. Each takes its place on the page and returns { update, redraw }.
import { $, ago, attempt, brief, esc, get, h, post, refresh, state, toast } from "/static/app.js";

const MOST_POINTS = 2000; // points drawn in the history; of more, evenly chosen ones
const PAGE = 50;
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const SYMBOLS = { initial: "circle", model: "triangle-up", random: "square", enqueued: "diamond", told: "cross" };

const plotly = () =>
  window.Plotly ? Promise.resolve() : new Promise((done) => addEventListener("load", done, { once: true }));

const draw = async (div, traces, layout = {}) => {
  await plotly();
  const axis = { gridcolor: css("line"), zeroline: false, automargin: true, linecolor: css("line"), exponentformat: "e" };
  const whole = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: css("ink"), size: 12 },
    margin: { l: 56, r: 12, t: 8, b: 44 }, hovermode: "closest", showlegend: true,
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 }, modebar: { bgcolor: "rgba(0,0,0,0)", color: css("dim"), activecolor: css("ink") }, ...layout,
    xaxis: { ...axis, ...layout.xaxis }, yaxis: { ...axis, ...layout.yaxis },
  };
  // plotly.js 4 offers by default to send a chart to its makers; a study stays here.
  const settings = { responsive: true, displaylogo: false, showSendToCloud: false, plotlyServerURL: "", modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"] };
  await window.Plotly.react(div, traces, whole, settings);
};

const complete = () => state.trials.filter((t) => t && t.value !== null);
const TOO_FEW = "The model needs at least two values.";
const enough = () => complete().length >= 2;
const sign = () => (state.facts.direction === "minimize" ? 1 : -1);
const bestTrial = () => complete().reduce((best, t) => (!best || sign() * t.value < sign() * best.value ? t : best), null);
const paramsOf = (t) => Object.fromEntries(state.names.map((name, i) => [name, t.params[i]]).filter(([, v]) => v !== null));
const thin = (list) => {
  const step = Math.max(1, list.length / MOST_POINTS);
  return step === 1 ? list : Array.from({ length: MOST_POINTS }, (_, i) => list[Math.floor(i * step)]);
};
const axisOf = (name) => state.facts.space.find((axis) => axis.name === name);
const pairs = (params) => h("dl", {}, Object.entries(params).flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, typeof v === "number" ? String(v) : brief(v))]));
const sentence = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);
const quietly = (message) => h("p", { className: "dim" }, message);

// The list of studies.
const studies = (place) => {
  const body = h("div");
  place.replaceChildren(h("h1", {}, "Studies"), body);
  const update = (list) => {
    if (!list.length) {
      body.replaceChildren(quietly("No studies yet. They appear here as soon as one begins."));
      return;
    }
    const row = (s) =>
      h("tr", {}, h("td", {}, h("a", { href: `#/study/${encodeURIComponent(s.name)}/overview` }, s.name)),
        h("td", {}, s.paused ? "paused" : s.running ? `${s.running} running` : "idle"), h("td", { className: "number" }, String(s.trials)),
        h("td", { className: "number" }, s.failed ? String(s.failed) : ""), h("td", { className: "number" }, brief(s.best)),
        h("td", {}, s.direction), h("td", {}, ago(s.changed)));
    const heads = ["Study", "State", "Trials", "Failed", "Best", "Direction", "Last change"];
    body.replaceChildren(h("div", { className: "card scroll" }, h("table", {},
      h("thead", {}, h("tr", {}, heads.map((text, i) => h("th", { scope: "col", className: i > 1 && i < 5 ? "number" : "" }, text)))),
      h("tbody", {}, list.map(row)))));
  };
  return { update };
};

// Overview: numbers, history, what remains, controls.
const overview = (place) => {
  const numbers = h("div", { className: "numbers" });
  const chart = h("div", { className: "plot", id: "history", role: "img", "aria-label": "Values by trial and the best so far" });
  const shown = h("p", { className: "dim" });
  const best = h("div", { className: "card" });
  const outlook = h("div", { className: "card" }, h("h2", {}, "Outlook"), quietly("Computing …"));
  const settings = h("div", { className: "card" });
  const pause = h("button", { onclick: () => act(state.facts.paused ? "resume" : "pause") });
  const bar = h("div", { className: "row" }, pause,
    h("button", { onclick: () => confirmStop() }, "Stop"),
    h("button", { onclick: () => addTrial() }, "Add a trial"),
    h("a", { href: `/api/csv?name=${encodeURIComponent(state.name)}`, download: "" }, "Download CSV"));
  place.append(numbers, bar, h("div", { className: "card" }, chart, shown), h("div", { className: "grid" }, best, outlook, settings));

  const redraw = async () => {
    const all = complete();
    const s = sign();
    let so_far = Infinity;
    const steps = { x: [], y: [] };
    for (const t of all)
      if (s * t.value < so_far) {
        so_far = s * t.value;
        steps.x.push(t.number);
        steps.y.push(t.value);
      }
    if (all.length) {
      steps.x.push(all.at(-1).number);
      steps.y.push(s * so_far);
    }
    const dots = thin(all);
    shown.textContent = dots.length < all.length ? `${dots.length} of ${all.length} values drawn; the line is exact.` : "";
    const colors = [css("vermilion"), css("green"), css("purple"), css("orange"), css("sky")];
    const traces = Object.entries(SYMBOLS).map(([source, symbol], i) => {
      const some = dots.filter((t) => t.source === source);
      return { x: some.map((t) => t.number), y: some.map((t) => t.value), customdata: some.map((t) => t.number), name: source,
        mode: "markers", type: "scatter", marker: { symbol, color: colors[i], size: 6, opacity: 0.75 }, hovertemplate: "trial %{x}: %{y}<extra></extra>" };
    }).filter((trace) => trace.x.length);
    traces.push({ ...steps, name: "best so far", mode: "lines", type: "scatter", line: { shape: "hv", color: css("blue"), width: 2 }, hovertemplate: "best after trial %{x}: %{y}<extra></extra>" });
    const failed = thin(state.trials.filter((t) => t && t.state === "failed"));
    if (failed.length)
      traces.push({ x: failed.map((t) => t.number), y: failed.map(() => 0.01), yaxis: "y2", name: "failed", mode: "markers", type: "scatter",
        marker: { symbol: "x", color: css("ink"), size: 6 }, hovertemplate: "trial %{x} failed<extra></extra>" });
    const values = all.map((t) => t.value);
    const wide = values.length && Math.min(...values) > 0 && Math.max(...values) / Math.min(...values) > 300;
    await draw(chart, traces, { xaxis: { title: { text: "trial" } }, yaxis: { title: { text: "value" }, type: wide ? "log" : "linear" },
      yaxis2: { overlaying: "y", range: [0, 1], visible: false, fixedrange: true } });
    if (!chart.onPoint) {
      chart.onPoint = true;
      chart.on("plotly_click", (event) => detail(event.points[0].x));
    }
  };

  let looked = 0;
  const look = async () => {
    if (!enough()) {
      outlook.replaceChildren(h("h2", {}, "Outlook"), quietly(TOO_FEW));
      return;
    }
    if (Date.now() - looked < 5000) return;
    looked = Date.now();
    try {
      const { remaining: r, advice } = await get("advice", { name: state.name });
      outlook.replaceChildren(h("h2", {}, "Outlook"),
        h("p", {}, `Expected improvement still to be found: ${brief(r.expected)}. `,
          `An improvement of more than ${brief(+r.worth.toPrecision(2))} remains with probability ${(100 * r.probability).toFixed(0)} %.`),
        h("ul", { className: "plain" }, advice.map((a) => h("li", {}, h("b", { className: a.level === "warning" ? "warn" : "" }, `${sentence(a.text)}. `), sentence(a.remedy), "."))));
    } catch (error) {
      outlook.replaceChildren(h("h2", {}, "Outlook"), quietly(error.message));
    }
  };

  const update = async () => {
    const f = state.facts;
    const cells = [["best", brief(f.best) || "none"], ["trials", f.trials], ["complete", f.complete], ["running", f.running], ["failed", f.failed], ["waiting", f.waiting]];
    numbers.replaceChildren(...cells.map(([what, value]) => h("div", { id: `number-${what}` }, h("b", {}, String(value)), h("span", {}, what))));
    pause.textContent = f.paused ? "Resume" : "Pause";
    pause.className = f.paused ? "main" : "";
    const top = bestTrial();
    best.replaceChildren(h("h2", {}, "Best"), top ? h("div", {}, h("p", {}, `${top.value} at trial ${top.number}`), pairs(paramsOf(top))) : quietly("No value yet."));
    const name = (setting) => (typeof setting === "string" ? setting : setting.object);
    settings.replaceChildren(h("h2", {}, "Settings"), pairs({ direction: f.direction, surrogate: name(f.surrogate), acquisition: name(f.acquisition), initial: f.initial, seed: f.seed, ...(f.constraints ? { constraints: f.constraints } : {}) }));
    await redraw();
    look();
  };
  return { update, redraw };
};

const act = (action) => attempt(async () => {
  await post("control", { name: state.name, action });
  toast({ pause: "Paused: what runs is finished, nothing new starts.", resume: "Resumed.", stop: "Runs end once their trials are finished." }[action]);
  await refresh();
  await state.view.update();
});

// Dialogs.
const open = (title, ...content) => {
  const dialog = $("dialog");
  dialog.replaceChildren(h("div", { className: "row" }, h("h2", { id: "dialog-title" }, title), h("span", { className: "grow" }), h("button", { onclick: () => dialog.close(), "aria-label": "Close" }, "✕")), ...content.flat().filter((part) => part !== null));
  if (!dialog.open) dialog.showModal();
  return dialog;
};

const confirmStop = () => {
  const dialog = open("Stop every run of this study?", h("p", {}, "Trials that run are finished. The study is kept and can be continued later."),
    h("div", { className: "row" }, h("button", { className: "main", onclick: () => { dialog.close(); act("stop"); } }, "Stop"), h("button", { onclick: () => dialog.close() }, "Go on")));
};

const detail = (number) => attempt(async () => {
  const t = await get("trial", { name: state.name, number });
  const took = t.finished && t.suggested ? `${(t.finished - t.suggested).toPrecision(3)} s` : "";
  const facts = { state: t.state, ...(t.value !== null ? { value: t.value } : {}), ...(t.stddev !== null ? { stddev: t.stddev } : {}), source: t.source, attempt: t.attempt, took, worker: t.owner || "" };
  const curve = h("div", { className: "plot small" });
  const text = h("textarea", { rows: 2, maxLength: 4000, "aria-label": "Note", placeholder: "A note on this trial" });
  const keep = () => attempt(async () => {
    await post("note", { name: state.name, number, text: text.value });
    await refresh();
    detail(number);
  });
  open(`Trial ${number}`, h("h2", {}, "Params"), pairs(t.params), h("h2", {}, "Facts"), pairs(facts),
    Object.keys(t.metrics).length ? [h("h2", {}, "Metrics"), pairs(t.metrics)] : null,
    t.failure ? [h("h2", { className: "bad" }, `${t.failure.kind}: ${t.failure.message}`), h("pre", { tabIndex: 0 }, t.failure.traceback || "no traceback")] : null,
    t.reports.length ? curve : null,
    h("ul", { className: "plain" }, t.notes.map((note) => h("li", {}, note.text, " ", h("span", { className: "dim" }, ago(note.at))))),
    h("div", { className: "row" }, text, h("button", { onclick: keep }, "Keep note")));
  if (t.reports.length)
    await draw(curve, [{ x: t.reports.map((r) => r[0]), y: t.reports.map((r) => r[1]), mode: "lines+markers", type: "scatter", line: { color: css("blue") } }],
      { showlegend: false, xaxis: { title: { text: "step" } }, yaxis: { title: { text: "reported" } } });
});

// Sliders between params and [0, 1].
const fromUnit = (axis, u) => {
  if (axis.options) return axis.options[Math.min(axis.options.length - 1, Math.floor(u * axis.options.length))];
  let value = axis.log ? axis.low * (axis.high / axis.low) ** u : axis.low + u * (axis.high - axis.low);
  if (axis.integer) value = Math.round(value);
  if (axis.step) value = Math.min(axis.low + Math.round((value - axis.low) / axis.step) * axis.step, axis.high);
  return Math.min(axis.high, Math.max(axis.low, value));
};
const toUnit = (axis, value) => (axis.log ? Math.log(value / axis.low) / Math.log(axis.high / axis.low) : (value - axis.low) / (axis.high - axis.low));

/** Controls for one dimension: a label, a slider or a list, and the value; `change` is called with the value. */
const control = (axis, value, change) => {
  const id = `axis-${state.names.indexOf(axis.name)}`;
  if (axis.options) {
    const list = h("select", { id, className: "wide", onchange: () => change(axis.options[+list.value]) },
      axis.options.map((option, i) => h("option", { value: String(i), selected: JSON.stringify(option) === JSON.stringify(value) }, brief(option))));
    return [h("label", { htmlFor: id }, axis.name), list];
  }
  const said = h("output", { htmlFor: id }, brief(value));
  const slider = h("input", { id, type: "range", min: "0", max: "1000", step: "1" });
  slider.value = String(Math.round(1000 * toUnit(axis, value)));
  slider.addEventListener("input", () => {
    const now = fromUnit(axis, slider.value / 1000);
    said.textContent = brief(now);
    change(now);
  });
  return [h("label", { htmlFor: id }, axis.name), slider, said];
};
const free = () => state.facts.space.filter((axis) => axis.kind !== "constant");
const startValues = () => {
  const top = bestTrial();
  const known = top ? paramsOf(top) : {};
  return Object.fromEntries(free().map((axis) => [axis.name, known[axis.name] ?? fromUnit(axis, 0.5)]));
};

const addTrial = () => {
  const values = startValues();
  const exists = (axis) => !axis.when || Object.entries(axis.when).every(([parent, wanted]) => parent in chosen() && wanted.some((w) => JSON.stringify(w) === JSON.stringify(values[parent])));
  const chosen = () => {
    const out = {};
    for (const axis of free())
      if (!axis.when || Object.entries(axis.when).every(([parent, wanted]) => parent in out && wanted.some((w) => JSON.stringify(w) === JSON.stringify(out[parent])))) out[axis.name] = values[axis.name];
    return out;
  };
  const form = h("div", { className: "fields" });
  const value = h("input", { id: "told", className: "wide", inputMode: "decimal", placeholder: "left out: it is tried next" });
  const fill = () => form.replaceChildren(...free().filter(exists).flatMap((axis) => control(axis, values[axis.name], (now) => {
    values[axis.name] = now;
    if (axis.options || axis.integer) {
      const focused = document.activeElement?.id;
      fill();
      if (focused) document.getElementById(focused)?.focus();
    }
  })), h("label", { htmlFor: "told" }, "value, if known"), value);
  fill();
  const send = () => attempt(async () => {
    const known = value.value.trim();
    if (known !== "" && !Number.isFinite(Number(known))) throw new Error(`A value must be a number, but got ${known}.`);
    const number = await post("add", { name: state.name, params: chosen(), value: known === "" ? null : Number(known) });
    $("dialog").close();
    toast(known === "" ? `Trial ${number} is tried next.` : `Trial ${number} is added.`);
    await refresh();
    await state.view.update();
  });
  open("Add a trial", form, h("div", { className: "row" }, h("button", { className: "main", id: "send-trial", onclick: send }, "Add")));
};

// Trials: filter, sort, page, detail.
const COMPARE = { "<=": (a, b) => a <= b, ">=": (a, b) => a >= b, "<": (a, b) => a < b, ">": (a, b) => a > b, "=": (a, b) => String(a) === String(b) };
const matcher = (text) => {
  const tests = text.trim().split(/\s+/).filter(Boolean).map((word) => {
    const match = /^(.+?)(<=|>=|<|>|=)(.+)$/.exec(word);
    const column = match && (["number", "state", "value", "source"].includes(match[1]) ? (t) => t[match[1]] : state.names.includes(match[1]) ? (t) => t.params[state.names.indexOf(match[1])] : null);
    if (!column) return (t) => [t.number, t.state, t.source, ...t.params, t.failure?.[1] ?? ""].some((cell) => brief(cell).toLowerCase().includes(word.toLowerCase()));
    const wanted = Number.isNaN(Number(match[3])) ? match[3] : Number(match[3]);
    return (t) => column(t) !== null && COMPARE[match[2]](column(t), wanted);
  });
  return (t) => tests.every((test) => test(t));
};

const trials = (place) => {
  let page = 0;
  let sort = ["number", -1];
  const filter = h("input", { type: "search", id: "filter", placeholder: "filter: failed  lr<0.01  act=relu", "aria-label": "Filter trials", size: 34, oninput: () => { page = 0; update(); } });
  const count = h("span", { className: "dim", role: "status" });
  const table = h("div", { className: "card scroll" });
  const back = h("button", { onclick: () => { page -= 1; update(); } }, "Newer");
  const on = h("button", { onclick: () => { page += 1; update(); } }, "Older");
  place.append(h("div", { className: "row" }, filter, count, h("span", { className: "grow" }), h("button", { onclick: () => addTrial() }, "Add a trial"), h("a", { href: `/api/csv?name=${encodeURIComponent(state.name)}`, download: "" }, "Download CSV")), table, h("div", { className: "row" }, back, on));
  const columns = () => [["number", (t) => t.number], ["state", (t) => t.state], ["value", (t) => t.value], ...state.names.map((name, i) => [name, (t) => t.params[i], true]), ["source", (t) => t.source], ["took", (t) => (t.finished && t.started ? t.finished - t.started : null)]];
  const update = () => {
    const all = columns();
    const fits = matcher(filter.value);
    const key = all.find(([name]) => name === sort[0]) ?? all[0];
    const found = state.trials.filter((t) => t && fits(t)).sort((a, b) => {
      const [x, y] = [key[1](a), key[1](b)];
      if (x === null || y === null) return (x === null) - (y === null);
      return sort[1] * (x < y ? -1 : x > y ? 1 : 0);
    });
    page = Math.max(0, Math.min(page, Math.ceil(found.length / PAGE) - 1));
    const part = found.slice(page * PAGE, (page + 1) * PAGE);
    const top = bestTrial();
    count.textContent = found.length > PAGE ? `${page * PAGE + 1} to ${page * PAGE + part.length} of ${found.length}` : `${found.length} of ${state.trials.length}`;
    back.disabled = page === 0;
    on.disabled = (page + 1) * PAGE >= found.length;
    const numeric = (name) => ["number", "value", "took"].includes(name) || axisOf(name)?.low !== undefined;
    const head = all.map(([name]) => h("th", { scope: "col", className: numeric(name) ? "number" : "", "aria-sort": sort[0] === name ? (sort[1] > 0 ? "ascending" : "descending") : null },
      h("button", { "data-column": name, onclick: () => { sort = [name, sort[0] === name ? -sort[1] : 1]; page = 0; update(); } }, name + (sort[0] === name ? (sort[1] > 0 ? " ↑" : " ↓") : ""))));
    const row = (t) => h("tr", { className: `open${top && t.number === top.number ? " best" : ""}`, tabIndex: 0, onclick: () => detail(t.number),
      onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); detail(t.number); } } },
      all.map(([name, read]) => h("td", { className: name === "state" ? `state-${t.state}` : numeric(name) ? "number" : "", title: name === "state" && t.failure ? t.failure[1] : null },
        name === "took" && read(t) !== null ? `${read(t).toPrecision(3)} s` : brief(read(t)))));
    const focused = document.activeElement?.dataset?.column;
    table.replaceChildren(h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, part.map(row))));
    if (focused) table.querySelector(`[data-column=${CSS.escape(focused)}]`)?.focus();
  };
  return { update };
};

// The model along one dimension, with sliders for the others.
const model = (place) => {
  let values = startValues();
  let name = free()[0].name;
  let last = null;
  let timer;
  const pick = h("select", { id: "along", onchange: () => { name = free()[+pick.value].name; fill(); ask(); } }, free().map((axis, i) => h("option", { value: String(i) }, axis.name)));
  const chart = h("div", { className: "plot", id: "slice", role: "img", "aria-label": "What the model expects along one parameter" });
  const said = h("p", { className: "dim", role: "status" }, "Fitting …");
  const sliders = h("div", { className: "fields" });
  place.append(h("div", { className: "row" }, h("label", { htmlFor: "along" }, "along"), pick, h("button", { onclick: () => { values = startValues(); fill(); ask(); } }, "Others as in the best trial")),
    h("div", { className: "card" }, chart, said), h("div", { className: "card" }, sliders));
  const fill = () => sliders.replaceChildren(...free().filter((axis) => axis.name !== name).flatMap((axis) => control(axis, values[axis.name], (now) => {
    values[axis.name] = now;
    clearTimeout(timer);
    timer = setTimeout(ask, 120);
  })));
  const redraw = async () => {
    if (!last) return;
    const axis = axisOf(last.name);
    const x = axis.options ? last.values.map((v) => esc(brief(v))) : last.values;
    const dots = { x: axis.options ? last.data[0].map((v) => esc(brief(v))) : last.data[0], y: last.data[1], customdata: last.data[2], name: "values (others differ)", mode: "markers", type: "scatter", marker: { color: css("ink"), size: 5, opacity: 0.4 }, hovertemplate: "trial %{customdata}: %{y}<extra></extra>" };
    const up = last.high.map((v, i) => v - last.mean[i]);
    const down = last.low.map((v, i) => last.mean[i] - v);
    const traces = axis.options
      ? [{ x, y: last.mean, error_y: { type: "data", symmetric: false, array: up, arrayminus: down, color: css("blue") }, name: "mean, 95 %", mode: "markers", type: "scatter", marker: { size: 9, color: css("blue") } }]
      : [{ x, y: last.low, mode: "lines", type: "scatter", line: { width: 0 }, showlegend: false, hoverinfo: "skip" },
        { x, y: last.high, mode: "lines", type: "scatter", line: { width: 0 }, fill: "tonexty", fillcolor: "rgba(86,180,233,0.28)", name: "95 %", hoverinfo: "skip" },
        { x, y: last.mean, mode: "lines", type: "scatter", line: { color: css("blue"), width: 2 }, name: "mean" }];
    await draw(chart, [...traces, dots], { xaxis: { title: { text: esc(last.name) }, type: axis.options ? "category" : axis.log ? "log" : "linear" }, yaxis: { title: { text: "value" } } });
  };
  const ask = async () => {
    if (!enough()) {
      said.textContent = TOO_FEW;
      return;
    }
    try {
      const at = JSON.stringify(values);
      last = await get("slice", { name: state.name, param: name, at });
      said.textContent = `The model was fitted to ${last.values_used} values.`;
      await redraw();
    } catch (error) {
      said.textContent = error.message;
    }
  };
  fill();
  let asked = 0;
  return { redraw, update: async () => { if (!last || Date.now() - asked > 6000) { asked = Date.now(); await ask(); } } };
};

// Importance.
const importance = (place) => {
  const chart = h("div", { className: "plot", id: "shares", role: "img", "aria-label": "Share of variance by parameter" });
  const said = h("p", { className: "dim", role: "status" }, "Computing …");
  place.append(h("div", { className: "card" }, h("h2", {}, "Share of the objective's variation that each parameter explains"), chart, said));
  let rows = null;
  let asked = 0;
  const redraw = async () => {
    if (!rows) return;
    const up = [...rows].reverse();
    const y = up.map((r) => esc(r.name));
    chart.style.height = `${Math.max(160, 90 + 42 * rows.length)}px`;
    await draw(chart, [
      { y, x: up.map((r) => r.total), type: "bar", orientation: "h", name: "with interactions", marker: { color: css("sky") }, error_x: { type: "data", symmetric: false, array: up.map((r) => Math.max(0, r.high - r.total)), arrayminus: up.map((r) => Math.max(0, r.total - r.low)), color: css("ink") } },
      { y, x: up.map((r) => Math.max(0, r.first)), type: "bar", orientation: "h", name: "alone", marker: { color: css("orange") } },
    ], { barmode: "group", xaxis: { title: { text: "Sobol index (whiskers: 90 %)" }, rangemode: "tozero" }, yaxis: { type: "category" } });
  };
  const update = async () => {
    if (!enough()) {
      said.textContent = TOO_FEW;
      return;
    }
    if (Date.now() - asked < 10000) return;
    asked = Date.now();
    try {
      rows = await get("importance", { name: state.name });
      said.textContent = "Sobol indices of functions drawn from the model, over the whole space.";
      await redraw();
    } catch (error) {
      said.textContent = error.message;
    }
  };
  return { update, redraw };
};

// Learning curves.
const curves = (place) => {
  const chart = h("div", { className: "plot", id: "curves" });
  const said = h("p", { className: "dim", role: "status" });
  place.append(h("div", { className: "card" }, chart, said));
  let found = { total: 0, curves: [] };
  const redraw = async () => {
    chart.hidden = !found.curves.length;
    said.textContent = found.curves.length ? `${found.curves.length} of ${found.total} curves; the best trial is drawn thick, forecasts of unfinished ones are dotted with bands of 95 %.` : "No trial has reported intermediate values (trial.report).";
    if (!found.curves.length) return;
    const top = bestTrial();
    const looks = { failed: [css("vermilion"), "dot"], complete: [css("sky"), "solid"], running: [css("orange"), "dash"], waiting: [css("dim"), "dash"], paused: [css("orange"), "dashdot"] };
    // What was reported fills the chart; a wide band may leave it.
    const shown = found.curves.flatMap((c) => [...c.reports.map((r) => r[1]), ...(c.ahead ? c.ahead.mean : [])]);
    const [low, high] = shown.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);
    const range = [low - 0.05 * (high - low || 1), high + 0.05 * (high - low || 1)];
    const isBest = (c) => (top !== null && c.number === top.number ? 1 : 0);
    await draw(chart, [...found.curves].sort((a, b) => isBest(a) - isBest(b)).flatMap((c) => {
      const best = isBest(c);
      const [color, dash] = looks[c.state] ?? looks.waiting;
      const ahead = c.ahead ? [
        { x: [...c.ahead.steps, ...[...c.ahead.steps].reverse()], y: [...c.ahead.high, ...[...c.ahead.low].reverse()], fill: "toself", fillcolor: "rgba(230,159,0,0.18)", line: { width: 0 }, mode: "lines", type: "scatter", hoverinfo: "skip", showlegend: false },
        { x: c.ahead.steps, y: c.ahead.mean, mode: "lines", type: "scatter", showlegend: false, line: { color, dash: "dot", width: 1.5 }, hovertemplate: `trial ${c.number}, step %{x}: expected %{y}<extra></extra>` },
      ] : [];
      return [...ahead, { x: c.reports.map((r) => r[0]), y: c.reports.map((r) => r[1]), mode: c.reports.length > 1 ? "lines" : "markers", type: "scatter", showlegend: false, line: { color: best ? css("orange") : color, dash, width: best ? 3.5 : 1 }, hovertemplate: `trial ${c.number}, step %{x}: %{y}, ${c.state}<extra></extra>` }];
    }), { xaxis: { title: { text: "step" } }, yaxis: { title: { text: "reported value" }, range } });
  };
  return { redraw, update: async () => { found = await get("curves", { name: state.name }); await redraw(); } };
};

// Workers.
const workers = (place) => {
  const table = h("div", { className: "card scroll" });
  const chart = h("div", { className: "plot", id: "timeline", role: "img", "aria-label": "Which worker ran which trial when" });
  place.append(table, h("div", { className: "card" }, chart));
  let found = null;
  const redraw = async () => {
    if (!found || !found.timeline.length) return;
    const rows = found.timeline;
    const begin = Math.min(...rows.map((r) => r.start));
    const span = Math.max(...rows.map((r) => r.end)) - begin;
    // The host and the process; boot, start and token, which tell namesakes apart, stand in the table.
    const short = (worker) => worker.replace(/^([^/:]+)\/[^:]*:(\d+):.*$/, "$1:$2").slice(0, 24);
    const lane = (r) => esc(`${short(r.worker)} #${r.lane + 1}`);
    const looks = { complete: css("sky"), failed: css("vermilion"), running: css("orange"), waiting: css("dim") };
    const traces = Object.entries(looks).map(([status, color]) => {
      const mine = rows.filter((r) => r.state === status);
      return { y: mine.map(lane), x: mine.map((r) => Math.max(r.end - r.start, 1e-6)), base: mine.map((r) => r.start - begin), type: "bar", orientation: "h", name: status, marker: { color, line: { color: mine.map((r) => (300 * (r.end - r.start) < span ? color : css("card"))), width: 1 } }, customdata: mine.map((r) => r.number), hovertemplate: "trial %{customdata}<extra></extra>" };
    }).filter((trace) => trace.x.length);
    const lanes = new Set(rows.map(lane)).size;
    chart.style.height = `${Math.max(180, 110 + 34 * lanes)}px`;
    await draw(chart, traces, { barmode: "overlay", xaxis: { title: { text: "seconds since the first trial shown" } }, yaxis: { type: "category", autorange: "reversed" } });
  };
  const update = async () => {
    found = await get("workers", { name: state.name });
    if (!found.workers.length) {
      table.replaceChildren(quietly("Nobody has run a trial yet."));
      chart.hidden = true;
      return;
    }
    chart.hidden = false;
    const status = (w) => (w.running.length ? (w.gone ? "lost" : `running ${w.running.slice(0, 5).join(", ")}`) : w.living ? "idle" : "left");
    table.replaceChildren(h("table", {}, h("thead", {}, h("tr", {}, ["Worker", "State", "Last sign of life", "Done", "Failed"].map((text, i) => h("th", { scope: "col", className: i > 2 ? "number" : "" }, text)))),
      h("tbody", {}, found.workers.map((w) => h("tr", {}, h("td", {}, w.worker), h("td", { className: w.gone ? "bad" : "" }, status(w)), h("td", {}, ago(w.last)), h("td", { className: "number" }, String(w.done)), h("td", { className: "number" }, w.failed ? String(w.failed) : ""))))));
    await redraw();
  };
  return { update, redraw };
};

// Failures.
const failures = (place) => {
  const list = h("ul", { className: "plain" });
  place.append(h("div", { className: "card" }, list));
  const update = () => {
    const failed = state.trials.filter((t) => t && t.failure).reverse();
    if (!failed.length) {
      list.replaceChildren(h("li", {}, "No trial has failed."));
      return;
    }
    list.replaceChildren(...failed.slice(0, 200).map((t) => h("li", {},
      h("button", { onclick: () => detail(t.number) }, `Trial ${t.number}`), " ", h("b", { className: "bad" }, t.failure[0]), " ", t.failure[1])));
    if (failed.length > 200) list.append(h("li", { className: "dim" }, `and ${failed.length - 200} earlier ones`));
  };
  return { update };
};

// Notes.
const notes = (place) => {
  const text = h("textarea", { rows: 3, id: "note", maxLength: 4000, "aria-label": "Note", placeholder: "A note on this study" });
  const list = h("ul", { className: "plain" });
  const keep = () => attempt(async () => {
    await post("note", { name: state.name, text: text.value, number: null });
    text.value = "";
    await refresh();
    update();
  });
  place.append(h("div", { className: "card" }, text, h("div", { className: "row" }, h("button", { className: "main", id: "keep-note", onclick: keep }, "Keep note"))), h("div", { className: "card" }, list));
  const update = () => {
    const all = [...state.facts.notes].reverse();
    list.replaceChildren(...(all.length ? all.map((n) => h("li", {}, n.text, " ", h("span", { className: "dim" }, `${n.number === null ? "" : `trial ${n.number}, `}${ago(n.at)}`))) : [h("li", { className: "dim" }, "No notes yet.")]));
  };
  return { update };
};

export const views = { studies, overview, trials, model, importance, curves, workers, failures, notes };
