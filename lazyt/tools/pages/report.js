// What belongs together carries common keys in data-k: "s3" a line of the program, "g2" a group,
// "v7" a value. Pointing at an element marks what has its first key strongly, the others weakly.
let pinned = null;

function keys(element) {
  return element.dataset.k ? element.dataset.k.split(" ") : [];
}

function mark(plan, element) {
  const own = element ? keys(element) : [];
  const first = new Set(own.slice(0, 1));
  const all = new Set(own);
  for (const other of plan.querySelectorAll("[data-k]")) {
    const theirs = keys(other);
    const strong = other === element || theirs.some((key) => first.has(key));
    other.classList.toggle("strong", strong);
    other.classList.toggle("weak", !strong && theirs.some((key) => all.has(key)));
  }
}

function reveal(plan, element) {
  for (const pane of plan.querySelectorAll(".scroll")) {
    if (pane.contains(element)) continue;
    const shown = [...pane.querySelectorAll(".strong, .weak")].filter((e) => e.getClientRects().length);
    const target = shown.find((e) => e.classList.contains("strong")) || shown[0];
    if (!target) continue;
    if (target.tagName === "DETAILS") target.open = true;
    const distance = target.getBoundingClientRect().top - pane.getBoundingClientRect().top;
    pane.scrollTop += distance - pane.clientHeight / 3;
  }
}

for (const plan of document.querySelectorAll(".plan")) {
  const note = plan.querySelector(".pinned-note");
  const at = (event) => event.target.closest("[data-k]");
  plan.addEventListener("mouseover", (event) => {
    const element = at(event);
    if (!pinned && element) mark(plan, element);
  });
  plan.addEventListener("focusin", (event) => {
    const element = at(event);
    if (!pinned && element) mark(plan, element);
  });
  const pin = (element) => {
    pinned = pinned === element ? null : element;
    note.textContent = pinned ? "fixed: Esc lets go" : "";
    mark(plan, element);
    if (pinned) reveal(plan, element);
  };
  plan.addEventListener("click", (event) => {
    const element = at(event);
    if (element) pin(element);
  });
  plan.addEventListener("keydown", (event) => {
    const element = at(event);
    if (event.key === "Enter" && element && element.tagName !== "DETAILS") pin(element);
  });
  for (const choice of plan.querySelectorAll("select")) {
    choice.addEventListener("change", () => {
      for (const stage of choice.closest(".pane").querySelectorAll(".stage")) {
        stage.hidden = stage.dataset.stage !== choice.value;
      }
    });
  }
}

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  pinned = null;
  for (const plan of document.querySelectorAll(".plan")) {
    plan.querySelector(".pinned-note").textContent = "";
    mark(plan, null);
  }
});

const buttons = [...document.querySelectorAll("nav button")];
function choose(number) {
  buttons.forEach((button, n) => button.setAttribute("aria-pressed", String(n === number)));
  document.querySelectorAll(".plan").forEach((plan, n) => { plan.hidden = n !== number; });
  pinned = null;
}
buttons.forEach((button, number) => button.addEventListener("click", () => choose(number)));
const wanted = buttons.findIndex((button) => "#" + button.dataset.name === location.hash);
if (buttons.length) choose(Math.max(0, wanted));
