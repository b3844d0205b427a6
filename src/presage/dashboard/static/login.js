// Trades the token for a cookie that scripts cannot read. A token after # never leaves the browser on its own.
const send = async (token) => {
  const answer = await fetch("/login", {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Presage": "1" },
    body: JSON.stringify({ token }),
  });
  if (answer.ok) location.replace("/");
  else document.getElementById("wrong").textContent = "That is not the token.";
};
document.getElementById("login").addEventListener("submit", (event) => {
  event.preventDefault();
  send(document.getElementById("token").value);
});
if (location.hash.length > 1) {
  const token = decodeURIComponent(location.hash.slice(1));
  history.replaceState(null, "", "/login");
  send(token);
}
