// @ts-check
// Links back to a list keep the filter, order and page that it was left with in this tab.
for (const link of /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll("a[data-back]"))) {
  link.search = sessionStorage.getItem(link.dataset.back) ?? "";
}
