"""An MCP server with one tool, by streamable HTTP, and a page that calls it."""
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import HTMLResponse

server = MCPServer("sums")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


PAGE = """<button>Add 2 and 3</button><output></output><script>
const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
async function send(method, params, id) {
  const answer = await fetch('mcp', { method: 'POST', headers, body: JSON.stringify({ jsonrpc: '2.0', id, method, params }) });
  return answer.json();
}
document.querySelector('button').onclick = async () => {
  const client = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'page', version: '1' } };
  await send('initialize', client, 1);
  const { result } = await send('tools/call', { name: 'add', arguments: { a: 2, b: 3 } }, 2);
  document.querySelector('output').textContent = result.content[0].text;
};
</script>"""


@server.custom_route("/", methods=["GET"])
async def page(request):
    return HTMLResponse(PAGE)


# Requests may reach any worker, so none keeps a session. The host is checked by the gateway, which knows the endpoint's names.
unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
app = server.streamable_http_app(stateless_http=True, json_response=True, transport_security=unchecked)
