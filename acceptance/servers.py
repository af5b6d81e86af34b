"""Servers that stories talk to: HTTP, PgBouncer, RabbitMQ, S3, Postgres, the API. Each on a port of its own, ended with the world."""

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from world import (APP, JOBFORGE, OPERATOR, TENANT, WORKER, Failed, alive, as_server_user, children, figure,
                   wait_until)


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


class Postgres:
    """A Postgres that a story may stop and kill; everything on it is made as an operator would make it."""

    PASSWORD = "only-for-this-story"

    def __init__(self, world, name="server", copy_of=None):
        """A new one, or a standby that follows another one."""
        self.world, self.data, self.port = world, world.dir / name, free_port()
        self.data.mkdir()
        if os.geteuid() == 0:
            shutil.chown(self.data, "postgres", "postgres")
        if copy_of:
            self.follow(copy_of)
        else:
            self.run("initdb", "-D", self.data / "pgdata", "-U", "postgres", "--auth-local=trust",
                     "--auth-host=scram-sha-256", "--no-sync", "--locale=C", "--encoding=UTF8")

    def start(self):
        options = f"-p {self.port} -k {self.data} -c listen_addresses=127.0.0.1"
        self.run("pg_ctl", "start", "-w", "-D", self.data / "pgdata", "-l", self.data / "server.log", "-o", options)

    def crash(self):
        self.run("pg_ctl", "stop", "-m", "immediate", "-D", self.data / "pgdata")

    def kill(self):
        """The whole family at once, none of whom gets to do anything about it."""
        postmaster = int((self.data / "pgdata/postmaster.pid").read_text().split()[0])
        family = [postmaster, *children(postmaster)]
        for pid in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until("the server's processes are gone", lambda: not any(alive(pid) for pid in family))

    def follow(self, primary):
        """Begins anew as a standby of that one; to be started."""
        shutil.rmtree(self.data / "pgdata", ignore_errors=True)
        self.run("pg_basebackup", "-D", self.data / "pgdata", "-R", "-X", "stream", "-c", "fast", "--no-sync",
                 "-d", f"host={primary.data} port={primary.port} user=postgres")

    def commit_with_standby(self):
        """From now on what is committed here is on a standby, too."""
        superuser = self.superuser("postgres")
        self.world.sql(superuser, "alter system set synchronous_standby_names = '*'", "select pg_reload_conf()")
        sync = "select count(*) from pg_stat_replication where sync_state = 'sync'"
        wait_until("the standby is synchronous", lambda: self.world.value(superuser, sync) == "1")

    def promote(self):
        self.run("pg_ctl", "promote", "-w", "-D", self.data / "pgdata")

    def demote(self):
        """It goes on answering whoever is connected, and takes no writes."""
        self.world.sql(self.superuser("postgres"), "alter system set default_transaction_read_only = on",
                       "select pg_reload_conf()")

    def prepare(self, *types):
        """As `jobforge dev` does it: an admin without superuser's power migrates and makes the logins."""
        world, password = self.world, self.PASSWORD
        world.sql(self.superuser("postgres"), f"create role admin login createrole password '{password}'",
                  "create database jobforge owner admin")
        done = world.jobforge("migrate", url=self.url("admin"))
        if done.returncode != 0:
            raise Failed(f"migrate: {done.stderr}")
        for login, role in ((APP, "jf_tenant"), (WORKER, "jf_worker"), (OPERATOR, "jf_operator")):
            world.sql(self.url("admin"), f"create role {login} login password '{password}'", f"grant {role} to {login}")
        world.sql(self.url(OPERATOR), *(f"select jobforge.bind_login('{login}')" for login in (APP, WORKER, OPERATOR)),
                  f"select jobforge.upsert_tenant('{TENANT}', 'story')",
                  *(f"select jobforge.upsert_definition('{one}')" for one in types))

    def run(self, program, *arguments):
        command = as_server_user(str(self.world.bin / program), *map(str, arguments))
        # To a file: the server inherits the output, and a pipe would never end.
        with open(self.world.dir / "server.log", "ab") as log:
            code = subprocess.run(command, cwd=self.data, stdout=log, stderr=log, timeout=120).returncode
        if code != 0:
            raise Failed(f"{program} ended with {code}")

    def url(self, login):
        return f"postgres://{login}:{self.PASSWORD}@127.0.0.1:{self.port}/jobforge"

    def superuser(self, database):
        return f"postgres://postgres@/{database}?host={self.data}&port={self.port}"


class Api:
    """A `jobforge serve` that a story may kill; it comes back on the same port."""

    def __init__(self, world, name, logins, **settings):
        """The logins: a function from a login's name to its URL."""
        self.world, self.name, self.settings = world, name, settings
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.logins = {"JOBFORGE_DATABASE_URL": logins(APP), "JOBFORGE_SERVER__OPERATOR_URL": logins(OPERATOR),
                       "JOBFORGE_SERVER__WORKER_URL": logins(WORKER)}
        self.start()

    def start(self):
        listen = f"127.0.0.1:{self.port}"
        self.process = self.world.spawn(self.name, JOBFORGE, "serve", "--listen", listen, **self.logins, **self.settings)
        self.world.wait_ready(self.process, lambda: listens(self.port), self.name)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def call(self, key, method, path, body=None):
        """Status, headers and JSON of an answer, whatever it says."""
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/api/v1{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.headers, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as refusal:
            return refusal.code, refusal.headers, json.loads(refusal.read() or b"null")


class Pgbouncer:
    """In transaction mode, with so many server connections for each login; leads to where it is pointed."""

    def __init__(self, world, url, logins, pool=1):
        """The URLs: a function from a login's name."""
        program = shutil.which("pgbouncer", path=os.environ.get("PATH", "") + ":/usr/sbin")
        if not program:
            raise Failed("pgbouncer is not installed: scripts/setup test")
        self.world, self.home, self.direct, self.pool = world, world.dir / "pgbouncer", url, pool
        self.home.mkdir()
        self.port = free_port()
        # It lets everybody in and knows the passwords: on a port of this machine, for the minutes of a story.
        known = [urlsplit(url(login)) for login in logins]
        users = [f'"{one.username}" "{one.password}"\n' for one in known]
        (self.home / "users.txt").write_text("".join(users) + '"console" ""\n')
        self.write(known[0].port)
        if os.geteuid() == 0:
            for path in (self.home, *self.home.iterdir()):
                shutil.chown(path, "postgres", "postgres")
        version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout.split("\n")[0]
        process = world.spawn("pgbouncer", *as_server_user(program, self.home / "pgbouncer.ini"))
        world.wait_ready(process, lambda: "process up" in world.log("pgbouncer"), "pgbouncer")
        figure("pooler, mode, pool size", f"{version}, transaction, {pool}")

    def write(self, server):
        # By default it tries a server that was away only after 15 seconds.
        (self.home / "pgbouncer.ini").write_text(f"""[databases]
jobforge = host=127.0.0.1 port={server} dbname=jobforge
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self.port}
unix_socket_dir =
auth_type = trust
auth_file = {self.home}/users.txt
admin_users = console
pool_mode = transaction
default_pool_size = {self.pool}
server_login_retry = 1
""")

    def point_to(self, server):
        self.write(server)
        self.world.sql(f"postgres://console@127.0.0.1:{self.port}/pgbouncer", "reload")

    def url(self, login):
        direct = urlsplit(self.direct(login))
        return f"postgres://{direct.username}@127.0.0.1:{self.port}{direct.path}"


def free_port():
    """Below the ports of outgoing connections: nobody may take it while its server is away."""
    while True:
        port = random.randrange(20000, 32000)
        if not listens(port):
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
