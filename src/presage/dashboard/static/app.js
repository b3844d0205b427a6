// State, routing and the live stream. Everything that comes from a study is put on the page as text, never as HTML.
import { views } from "/static/views.js";

export const $ = (id) => document.getElementById(id);

/** An element; strings among the children become text nodes, and `on...` properties listeners. */
export const h = (tag, props = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key in element && !key.includes("-") && key !== "list" && key !== "form") element[key] = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
};

/** Plotly reads a few tags in texts; a user's text has none. */
export const esc = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

export const brief = (value) => {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : String(+value.toPrecision(5));
  return typeof value === "string" ? value : JSON.stringify(value);
};
export const ago = (seconds) => {
  if (!seconds) return "";
  const past = Math.max(0, Date.now() / 1000 - seconds);
  if (past < 90) return `${Math.round(past)} s ago`;
  if (past < 5400) return `${Math.round(past / 60)} min ago`;
  return past < 172800 ? `${Math.round(past / 3600)} h ago` : new Date(seconds * 1000).toLocaleDateString();
};

export const get = async (path, params = {}) => {
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value !== undefined));
  const answer = await fetch(`/api/${path}?${query}`);
  if (answer.status === 401) location.assign("/login");
  const body = await answer.json().catch(() => ({ error: `The dashboard answered ${answer.status}.` }));
  if (!answer.ok) throw new Error(body.error || `The dashboard answered ${answer.status}.`);
  return body;
};

export const post = async (path, body) => {
  const answer = await fetch(`/api/${path}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Presage": "1" },
    body: JSON.stringify(body),
  });
  const told = await answer.json().catch(() => ({ error: `The dashboard answered ${answer.status}.` }));
  if (!answer.ok) throw new Error(told.error);
  return told.result;
};

let hiding;
export const toast = (text) => {
  $("toast").textContent = text;
  $("toast").hidden = false;
  clearTimeout(hiding);
  hiding = setTimeout(() => ($("toast").hidden = true), 6000);
};
/** Run something that may fail, and say so if it does. */
export const attempt = async (work) => {
  try {
    return await work();
  } catch (error) {
    toast(error.message);
    return undefined;
  }
};

// A study as the page knows it: facts, and trials by number that are brought up to date by what changed.
export const state = { name: null, tab: "overview", facts: null, names: [], trials: [], seq: 0, seqs: {}, view: null };

export const refresh = async () => {
  const name = state.name;
  const [facts, news] = await Promise.all([get("study", { name }), get("trials", { name, since: state.seq })]);
  if (name !== state.name) return;
  if (JSON.stringify(state.names) !== JSON.stringify(news.names) && state.seq) {
    state.seq = 0; // the space has changed: columns mean something else now
    state.trials = [];
    await refresh();
    return;
  }
  state.facts = facts;
  state.names = news.names;
  for (const [number, status, value, source, started, finished, failure, params, reports] of news.rows)
    state.trials[number] = { number, state: status, value, source, started, finished, failure, params, reports };
  state.seq = news.seq;
};

const TABS = ["overview", "trials", "model", "importance", "curves", "workers", "failures", "notes"];

const frame = () => {
  const link = (tab) =>
    h("a", { href: `#/study/${encodeURIComponent(state.name)}/${tab}`, "aria-current": tab === state.tab ? "page" : null },
      tab[0].toUpperCase() + tab.slice(1));
  const body = h("div", { id: "view" });
  const tabs = h("nav", { className: "tabs", "aria-label": "Views" }, TABS.map(link));
  tabs.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const links = [...tabs.children];
    links[(links.indexOf(document.activeElement) + step + links.length) % links.length].focus();
  });
  $("main").replaceChildren(h("h1", {}, state.name), tabs, body);
  tabs.querySelector("[aria-current]").scrollIntoView({ block: "nearest", inline: "center" });
  return body;
};

const route = async () => {
  const [, kind, name, tab] = location.hash.split("/").map((part) => decodeURIComponent(part));
  state.view = null;
  if (kind !== "study") {
    Object.assign(state, { name: null, facts: null, trials: [], names: [], seq: 0 });
    document.title = "presage";
    $("where").textContent = "";
    const studies = await attempt(() => get("studies"));
    if (!studies) return;
    if (studies.length === 1 && kind === undefined) {
      location.replace(`#/study/${encodeURIComponent(studies[0].name)}/overview`);
      return;
    }
    state.view = views.studies($("main"));
    state.view.update(studies);
    return;
  }
  if (name !== state.name) Object.assign(state, { name, facts: null, trials: [], names: [], seq: 0 });
  state.tab = TABS.includes(tab) ? tab : "overview";
  document.title = `${name} · presage`;
  $("where").textContent = name;
  const shown = await attempt(async () => {
    if (!state.facts) await refresh();
    return true;
  });
  if (name !== state.name) return;
  const body = frame();
  if (!shown) {
    body.append(h("p", { className: "bad" }, "This study cannot be shown."));
    return;
  }
  state.view = views[state.tab](body);
  await attempt(() => state.view.update());
  follow(); // what was told while the page was being filled
};

// Changes come as they happen; the page asks for them at most twice a second and shows one update at a time.
let busy = false;
let again = false;
const follow = async () => {
  if (busy) {
    again = true;
    return;
  }
  busy = true;
  await attempt(async () => {
    if (state.name === null) {
      const studies = await get("studies");
      if (state.name === null && state.view) state.view.update(studies);
    } else if (state.facts && state.seqs[state.name] !== undefined && state.seqs[state.name] !== state.seq) {
      await refresh();
      if (state.view) await state.view.update();
    }
  });
  setTimeout(() => {
    busy = false;
    if (again) {
      again = false;
      follow();
    }
  }, 500);
};

const listen = () => {
  const source = new EventSource("/api/events");
  const say = (text, on) => {
    $("live").textContent = text;
    $("live").className = on ? "on" : "off";
  };
  source.onopen = () => say("live", true);
  source.onerror = () => say("reconnecting", false);
  source.onmessage = (event) => {
    say("live", true);
    state.seqs = JSON.parse(event.data).seqs;
    follow();
  };
};

const theme = (wanted) => {
  if (wanted) document.documentElement.dataset.theme = wanted;
  if (state.view?.redraw) state.view.redraw();
};
$("theme").addEventListener("click", () => {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark";
  const wanted = dark ? "light" : "dark";
  localStorage.setItem("theme", wanted);
  theme(wanted);
});
theme(localStorage.getItem("theme"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => theme(null));
addEventListener("hashchange", route);
route();
listen();
