"""Servers that stories talk to: HTTP, PgBouncer, RabbitMQ, S3. Each on a port of its own, ended with the world."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from world import APP, WORKER, Failed, as_server_user, figure, wait_until


class Http:
    """Answers every request with what it was asked, after a while; keeps the requests."""

    def __init__(self, seconds=0.0, status=200):
        self.requests, self.lock = [], threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self):
                length = int(self.headers.get("content-length", 0))
                heard = {"method": self.command, "path": self.path, "headers": dict(self.headers),
                         "body": self.rfile.read(length).decode()}
                with outer.lock:
                    outer.requests.append(heard)
                time.sleep(seconds)
                text = json.dumps(heard).encode()
                # A client that was killed does not hear the answer.
                with contextlib.suppress(OSError):
                    self.send_response(status if self.path != "/refuse" else 400)
                    self.send_header("content-type", "application/json")
                    self.send_header("content-length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text)

            do_GET = do_POST = do_PUT = answer

            def log_message(self, *_):
                pass

        # A waiting list as long as the requests of all workers' slots.
        self.server = type("Server", (ThreadingHTTPServer,), {"request_queue_size": 128})(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"


class Broker:
    """A RabbitMQ that can be killed and started again, with files and ports of its own."""

    # Until its standard input ends, which it does with the story, however that ends.
    GUARD = 'epmd -port "$ERL_EPMD_PORT" -address 127.0.0.1 & "$1" & read -r _; kill -KILL 0'
    # Debian's wrapper insists on its own user; the one behind it runs as anybody.
    PLACES = ("/usr/lib/rabbitmq/bin/rabbitmq-server", "/usr/local/sbin/rabbitmq-server")

    def __init__(self, world):
        self.world, self.dir = world, world.dir / "broker"
        self.dir.mkdir()
        self.amqp, self.distribution, self.mapper = free_ports(3)
        self.url = f"amqp://guest:guest@127.0.0.1:{self.amqp}/%2f"
        found = [place for place in (*self.PLACES, shutil.which("rabbitmq-server")) if place and Path(place).exists()]
        if not found:
            raise Failed("RabbitMQ is not installed: scripts/setup test")
        self.program = found[0]
        self.start()

    def start(self):
        none = str(self.dir / "none")  # this machine's own broker is no business of the story
        settings = {
            "HOME": str(self.dir), "ERL_EPMD_PORT": str(self.mapper), "RABBITMQ_NODENAME": f"jobforge-{self.amqp}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1", "RABBITMQ_NODE_PORT": str(self.amqp),
            "RABBITMQ_DIST_PORT": str(self.distribution), "RABBITMQ_MNESIA_BASE": str(self.dir / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.dir / "log"), "RABBITMQ_LOGS": "-", "RABBITMQ_PID_FILE": str(self.dir / "pid"),
            "RABBITMQ_CONF_ENV_FILE": none, "RABBITMQ_CONFIG_FILE": none, "RABBITMQ_ENABLED_PLUGINS_FILE": none}
        self.guard = self.world.spawn("broker", "/bin/sh", "-c", self.GUARD, "jobforge-story-broker", self.program,
                                      stdin=subprocess.PIPE, **settings)
        wait_until("the broker listens", lambda: listens(self.amqp), seconds=90)

    def kill(self):
        self.guard.stdin.close()
        self.guard.wait()


class S3:
    """A moto with one bucket; it believes any signature."""

    BUCKET = "artifacts"

    def __init__(self, world):
        program = Path.home() / ".cache/jobforge/moto/bin/moto_server"
        if not program.exists():
            raise Failed("moto is not installed: scripts/setup test")
        self.port = free_ports(1)[0]
        self.endpoint = f"http://127.0.0.1:{self.port}"
        world.spawn("moto", program, "-H", "127.0.0.1", "-p", self.port)
        wait_until("moto listens", lambda: listens(self.port))
        self.request("PUT")

    def request(self, method, key="", body=b""):
        """What an answer holds; an error is the caller's to expect."""
        signed = "AWS4-HMAC-SHA256 Credential=id/20250101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
        # With a type, because the default of Python's client is a form, which moto takes apart.
        headers = {"Authorization": signed, "Content-Type": "application/octet-stream"}
        request = urllib.request.Request(f"{self.endpoint}/{self.BUCKET}{key}", body if method == "PUT" else None,
                                         headers, method=method)
        with urllib.request.urlopen(request) as answer:
            return answer.read()


def start_pgbouncer(world):
    """In transaction mode with one server connection for each login; gives its port."""
    program = shutil.which("pgbouncer", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if not program:
        raise Failed("pgbouncer is not installed: scripts/setup test")
    home = world.dir / "pgbouncer"
    home.mkdir()
    server = urlsplit(world.url(APP))
    logins = [urlsplit(world.url(login)) for login in (APP, WORKER)]
    # It lets everybody in and knows the passwords: on a port of this machine, for the minute of a story.
    (home / "users.txt").write_text("".join(f'"{one.username}" "{one.password}"\n' for one in logins))
    port = server.port + 12000
    (home / "pgbouncer.ini").write_text(f"""[databases]
jobforge = host=127.0.0.1 port={server.port} dbname=jobforge
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {home}/users.txt
pool_mode = transaction
default_pool_size = 1
""")
    if os.geteuid() == 0:
        for path in (home, *home.iterdir()):
            shutil.chown(path, "postgres", "postgres")
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout.split("\n")[0]
    process = world.spawn("pgbouncer", *as_server_user(program, home / "pgbouncer.ini"))
    world.wait_ready(process, lambda: "process up" in world.log("pgbouncer"), "pgbouncer")
    figure("pooler, mode, pool size", f"{version}, transaction, 1")
    return port


def free_ports(count):
    """Held all at once, so that they differ."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
