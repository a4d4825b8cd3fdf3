"""The Kubernetes API as tests speak it: paths and JSON, as whoever a certificate or a token says."""
import contextlib
import http.client
import json
import ssl

from bed.process import wait_until

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
# Folders of the API that tests name most.
CORE, APPS, DISCOVERY = "/api/v1", "/apis/apps/v1", "/apis/discovery.k8s.io/v1"
LEASES, RBAC, EVENTS = ("/apis/coordination.k8s.io/v1", "/apis/rbac.authorization.k8s.io/v1", "/apis/events.k8s.io/v1")


class ApiError(Exception):
    """An answer of 400 or more; `status` is the HTTP status, `reason` the API's word, `body` the Status object."""

    def __init__(self, method, path, status, body):
        self.status, self.body = status, body
        self.reason = body.get("reason") if isinstance(body, dict) else None
        super().__init__(f"{method} {path}: {status} {body.get('message') if isinstance(body, dict) else body}")


class Api:
    """One connection a call: nothing to repair after the API server was restarted, cut off or given another CA.

    space: in whose network the calls are made; server: (address, port); ca, crt, key: files, read at each call.
    """

    def __init__(self, space, server, ca, crt=None, key=None, token=None):
        self.space, self.server, self.ca, self.crt, self.key, self.token = space, server, ca, crt, key, token

    def with_token(self, token):
        """The same API as another one: a bearer token, no certificate."""
        return Api(self.space, self.server, self.ca, token=token)

    def _connect(self, timeout):
        context = ssl.create_default_context(cafile=str(self.ca))
        if self.crt:
            context.load_cert_chain(self.crt, self.key)
        connection = http.client.HTTPSConnection(*self.server, context=context, timeout=timeout)
        with self.space.network():
            connection.connect()
        return connection

    @contextlib.contextmanager
    def _answer(self, method, path, body, kind, timeout):
        headers = {"Content-Type": kind, "Accept": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if body is not None and not isinstance(body, (str, bytes)):
            body = json.dumps(body, default=str)  # a Namespace is its name
        connection = self._connect(timeout)
        try:
            connection.request(method, path, body, headers)
            yield connection.getresponse()
        finally:
            connection.close()

    def call(self, method, path, body=None, kind="application/json", timeout=20):
        """(status, object), whatever the status; the object is text when the answer is not JSON. OSError: no answer."""
        with self._answer(method, path, body, kind, timeout) as response:
            text = response.read().decode("utf-8", "replace")
            try:
                return response.status, json.loads(text)
            except ValueError:
                return response.status, text

    def _good(self, method, path, body=None, kind="application/json", timeout=20):
        status, answer = self.call(method, path, body, kind, timeout)
        if status >= 400:
            raise ApiError(method, path, status, answer)
        return answer

    def get(self, path, **keywords):
        return self._good("GET", path, **keywords)

    def find(self, path, **keywords):
        """As get(), None when there is no such object."""
        try:
            return self.get(path, **keywords)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def post(self, path, body, **keywords):
        return self._good("POST", path, body, **keywords)

    def put(self, path, body, **keywords):
        return self._good("PUT", path, body, **keywords)

    def patch(self, path, body, kind=MERGE, **keywords):
        return self._good("PATCH", path, body, kind, **keywords)

    def delete(self, path, body=None, **keywords):
        """Gone already is fine."""
        try:
            return self._good("DELETE", path, body, **keywords)
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    def watch(self, path, seconds=5, **parameters):
        """Yields the events of a watch until the server ends it; parameters as in the query (resourceVersion=…)."""
        query = {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds), **parameters}
        path += "?" + "&".join(f"{name}={value}" for name, value in query.items())
        with self._answer("GET", path, None, "application/json", seconds + 20) as response:
            if response.status >= 400:
                raise ApiError("GET", path, response.status, json.loads(response.read()))
            while line := response.readline():
                yield json.loads(line)

    def wait(self, what, path, condition, timeout=30, pause=0.1):
        """Polls an object until condition(object) is true and returns it; a missing object is waited for."""
        seen = {}

        def holds():
            seen["object"] = self.find(path)
            return seen["object"] is not None and condition(seen["object"])

        wait_until(lambda: f"{what}; {path} is {json.dumps(seen.get('object'))[:1500]}", holds, timeout, pause)
        return seen["object"]
