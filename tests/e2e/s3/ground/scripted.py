"""A peer that answers as a test says, for what no real store does on demand."""
import socket
import threading


class Scripted:
    """answer(head, body, connection) is called for each request of each connection; it sends whatever it likes."""

    def __init__(self, ports, answer):
        self.port, self.answer, self.requests = ports.take(), answer, []
        self.address = f"127.0.0.1:{self.port}"
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        try:
            self._converse(connection)
        except OSError:
            pass  # the sidecar left

    def _converse(self, connection):
        buffer = b""
        with connection:
            while True:
                while b"\r\n\r\n" not in buffer:
                    data = connection.recv(65536)
                    if not data:
                        return
                    buffer += data
                head, buffer = buffer.split(b"\r\n\r\n", 1)
                lines = head.decode("latin-1").lower().split("\r\n")
                length = next((int(line[15:]) for line in lines if line.startswith("content-length:")), 0)
                if "expect: 100-continue" in lines and length:
                    connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
                while len(buffer) < length:
                    data = connection.recv(65536)
                    if not data:
                        return
                    buffer += data
                body, buffer = buffer[:length], buffer[length:]
                self.requests.append(head)
                self.answer(head, body, connection)

    def close(self):
        self._listener.close()
