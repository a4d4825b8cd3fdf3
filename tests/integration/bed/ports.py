"""Free ports that stay ours: outside the kernel's ephemeral range, so that neither an outgoing connection nor a
listener on port 0 can take one, and claimed by an abstract unix socket, so that two test runs never share one."""
import random
import socket

FIRST, LAST = 20000, 31999


class Ports:
    def __init__(self):
        self._claims = []
        self._next = random.randrange(FIRST, LAST)

    def take(self):
        for _ in range(LAST - FIRST):
            port = self._next
            self._next = FIRST if port >= LAST else port + 1
            claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                claim.bind(f"\0fairlead-test-port-{port}")
            except OSError:
                claim.close()
                continue
            if self._is_free(port):
                self._claims.append(claim)
                return port
            claim.close()
        raise RuntimeError("no free port between %d and %d" % (FIRST, LAST))

    @staticmethod
    def _is_free(port):
        for family, host in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                try:
                    probe.bind((host, port))
                except OSError as e:
                    if e.errno == 99:  # EADDRNOTAVAIL: a machine without IPv6
                        continue
                    return False
        return True
