/* The theme's script expects a page contents column on every page; short pages have none and it stops. */
document.addEventListener("DOMContentLoaded", () => {
  if (document.querySelector("div.bd-sidebar-secondary")) return;
  const column = document.createElement("div");
  column.className = "bd-sidebar-secondary hide";
  column.hidden = true;
  document.body.append(column);
});

/* From disk a browser may not read other pages, so search shows titles without excerpts there. */
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
