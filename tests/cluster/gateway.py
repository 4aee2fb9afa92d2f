"""A gateway in front of Kubeflow Pipelines, as an installation with several users has one: TLS, and a token checked.

The text of this file is a pod's program. It asks the API server whose the token is (TokenReview), which is what KFP's
own authentication does with the token of a ServiceAccount; what it lets through goes to KFP as it came. Settings from
the environment, for a KFP that serves several users: AUDIENCE of the tokens, USER_HEADER that tells KFP whose token it
was, and PREFIX, the path under which KFP lies.
"""

import http.client
import http.server
import json
import os
import ssl
import urllib.request

AUDIENCE = os.environ.get("AUDIENCE", "pipelines.kubeflow.org")
USER_HEADER, PREFIX = os.environ.get("USER_HEADER", ""), os.environ.get("PREFIX", "")
UPSTREAM = ("ml-pipeline.kubeflow", 8888)
OWN = "/var/run/secrets/kubernetes.io/serviceaccount"


def user_of(token: str) -> str:
    """Whose token it is, as the API server says; empty where it does not know it, or it was made for somebody else."""
    spec = {"token": token, "audiences": [AUDIENCE]}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
    with open(f"{OWN}/token") as file:
        headers = {"Authorization": f"Bearer {file.read()}", "Content-Type": "application/json"}
    url = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}/apis/authentication.k8s.io/v1/tokenreviews"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    context = ssl.create_default_context(cafile=f"{OWN}/ca.crt")
    with urllib.request.urlopen(request, context=context, timeout=10) as answer:
        status = json.load(answer)["status"]
    return str(status["user"]["username"]) if status.get("authenticated") else ""


class Gateway(http.server.BaseHTTPRequestHandler):
    """Passes a request on when its token is valid, and answers 401 otherwise."""

    def pass_on(self) -> None:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        user = user_of(token) if token else ""
        if not user:
            self.answer(401, b'{"message": "no valid token"}', "application/json")
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        gone = ("host", "authorization", USER_HEADER)  # nobody says by a header of his own who he is
        kept = {name: value for name, value in self.headers.items() if name.lower() not in gone}
        if USER_HEADER:
            kept[USER_HEADER] = user
        upstream = http.client.HTTPConnection(*UPSTREAM, timeout=60)
        upstream.request(self.command, self.path.removeprefix(PREFIX), body, kept)
        told = upstream.getresponse()
        self.answer(told.status, told.read(), told.getheader("Content-Type") or "application/json")

    do_GET = do_POST = do_DELETE = do_PATCH = pass_on

    def answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    server = http.server.ThreadingHTTPServer(("0.0.0.0", 8443), Gateway)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("/tls/tls.crt", "/tls/tls.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
