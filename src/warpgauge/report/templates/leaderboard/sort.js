// Sorts by the numbers behind the cells; cells without a number stay last. The page reads well without it.
const body = document.querySelector("#leaderboard tbody");
const heads = [...document.querySelectorAll("#leaderboard thead th")];
const value = (row, at) => {
  const cell = row.cells[at];
  if (at === 0) return cell.textContent.toLowerCase();
  return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
};
heads.forEach((head, at) => {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = head.textContent;
  head.replaceChildren(button);
  button.addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...body.rows].map((row) => [value(row, at), row]);
    const sign = down ? -1 : 1;
    rows.sort(([a], [b]) => (a === null) - (b === null) || (a === null ? 0 : sign * (a < b ? -1 : a > b ? 1 : 0)));
    body.append(...rows.map(([, row]) => row));
  });
});
