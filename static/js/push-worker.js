// Runs without a page: shows each message as a notification, and opens what it is about.
self.addEventListener("push", (event) => {
  const { title, body, tag, url, actions = [] } = event.data.json();
  const urls = Object.fromEntries(actions.map((each) => [each.action, each.url]));
  const buttons = actions.map(({ action, title }) => ({ action, title }));
  const options = { body, tag, renotify: true, icon: "/static/icon.svg", data: { url, urls }, actions: buttons };
  event.waitUntil(self.registration.showNotification(title, options));
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const { url, urls } = event.notification.data;
  event.waitUntil(open(new URL(urls[event.action] ?? url, self.location.origin)));
});

async function open(url) {
  if (url.origin !== self.location.origin) return;
  const pages = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
  const there = pages.find((page) => page.url === url.href);
  await (there ? there.focus() : self.clients.openWindow(url.href));
}
